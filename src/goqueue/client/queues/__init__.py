"""Queue groups, as share groups with fields of our own: taking messages, and acknowledging each."""
