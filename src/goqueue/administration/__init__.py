"""What operators change in groups of either kind: their offsets, and whether they are there."""
