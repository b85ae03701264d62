"""The paper's experiments: figures 2 to 8, and the predictors of its section 5."""
