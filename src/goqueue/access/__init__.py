"""Who may use the broker: users, and how they prove who they are."""
