"""Everything with a gradient with respect to λ: the objective, its phases, the search for its optimum, precisions."""
