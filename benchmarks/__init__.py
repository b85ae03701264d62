"""Speed, beside the peers in the same run: ``python -m benchmarks --peers``."""
