"""From the Laplace posterior to its mean, width and skewness."""
