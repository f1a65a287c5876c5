"""Clients at work in a cluster in trouble, a module for each capability, each with its judge."""
