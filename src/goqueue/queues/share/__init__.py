"""Share groups (KIP-932) in terms of queue groups."""
