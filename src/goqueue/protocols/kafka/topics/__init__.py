"""Topics: what there is, made and deleted; see README.md."""
