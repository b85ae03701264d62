"""Fields of two layers, one of them hidden: what the seen layer says of the other, and learning where both are large."""
