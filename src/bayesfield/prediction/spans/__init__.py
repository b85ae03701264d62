"""Entities as wholes: which labels mark them, how likely each is, and which to choose."""
