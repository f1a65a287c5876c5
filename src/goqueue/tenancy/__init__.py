"""Who the clients are: users and how they prove it."""
