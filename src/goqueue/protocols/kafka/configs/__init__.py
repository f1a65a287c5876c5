"""Settings of topics, of the broker and of groups; see README.md."""
