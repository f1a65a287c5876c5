"""Listening, connections, and the way of a request to its handler and back; see README.md."""
