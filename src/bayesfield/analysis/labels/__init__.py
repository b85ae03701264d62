"""How many labels a hidden Potts field has: by evidence, and by chains that jump between numbers."""
