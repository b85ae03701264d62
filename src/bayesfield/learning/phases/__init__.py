"""Phases: weighted sums of log Z over batches of factor graphs, with their means and covariances."""
