"""Fields of two layers, one hidden: what the seen layer says of the other, and learning where both are large."""
