"""The cluster as clients see it; see README.md."""
