"""Consumer groups; see README.md."""
