"""The posterior of the parameters: the object, how it was found, and what is asked of it."""
