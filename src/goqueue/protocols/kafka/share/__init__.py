"""Share groups (KIP-932); see README.md."""
