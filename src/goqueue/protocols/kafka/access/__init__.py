"""Who clients are, and what they may do; see README.md."""
