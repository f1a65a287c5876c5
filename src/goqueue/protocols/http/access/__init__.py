"""Users, API keys, rules and roles; see README.md."""
