"""The log of one partition, and snapshots of state built from one. Knows nothing of topics."""
