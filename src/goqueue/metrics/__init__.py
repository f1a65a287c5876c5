"""What the broker counts and measures: one file of names, one registry, two text formats."""
