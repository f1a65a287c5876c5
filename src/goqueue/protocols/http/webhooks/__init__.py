"""Webhook endpoints: made, changed, tested; their deliveries."""
