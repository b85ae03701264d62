"""The posterior precision P in several forms behind one face: dense, sparse, matrix-free, by blocks."""
