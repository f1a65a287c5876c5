"""The Kafka wire from a client's side: connections, who leads what, and trying again."""
