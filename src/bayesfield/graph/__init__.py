"""A field compiled to flat arrays, and what is made of them: with evidence, and with cases that have holes."""
