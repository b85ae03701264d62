"""What is chosen by how well it predicts what was left out."""
