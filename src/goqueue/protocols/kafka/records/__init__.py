"""Records in and out; see README.md."""
