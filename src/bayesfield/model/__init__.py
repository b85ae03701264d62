"""What a user states: variables, factors, features, ties, and the prior of the parameters."""
