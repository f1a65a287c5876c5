"""Queue groups: delivery, acknowledgement, redelivery, dead letters, share groups."""
