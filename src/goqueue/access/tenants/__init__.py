"""Tenants: teams that share a broker and see nothing of each other."""
