"""From an objective to its optimum: Newton, L-BFGS, sampled Newton, and the other learners."""
