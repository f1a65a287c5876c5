"""Routes of consumer groups: description, membership, offsets, queue settings."""
