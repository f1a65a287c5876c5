"""Judges of what clients saw of a cluster in trouble; each has seen nothing else."""
