"""Message passing: sum-product, max-product, odds of binary pairs, residual, regions."""
