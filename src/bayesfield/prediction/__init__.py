"""What a posterior predicts: labels of new inputs, averaged over the parameters; a column given the others."""
