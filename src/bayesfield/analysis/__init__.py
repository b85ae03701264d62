"""Questions to one or several posteriors: comparison, structure, sensitivity, predictive checks."""
