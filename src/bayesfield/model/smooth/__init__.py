"""Priors whose weights vary smoothly over the inputs."""
