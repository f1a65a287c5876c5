"""Who may do what: users, API keys, rules and roles, a file each."""
