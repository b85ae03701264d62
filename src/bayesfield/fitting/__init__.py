"""From a model and data to its posterior: three doors to one pipeline, and the plan that it follows."""
