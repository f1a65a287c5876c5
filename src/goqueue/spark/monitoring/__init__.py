"""How streaming queries do, reported to the broker: progress, lag, failures."""
