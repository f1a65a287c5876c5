"""What nodes of a cluster ask each other, on the internal listener alone."""
