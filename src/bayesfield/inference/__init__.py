"""From tables to marginals and log Z: engines behind one contract, and the questions users ask of them."""
