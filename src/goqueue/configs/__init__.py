"""Settings under their Kafka names: of the broker, and of groups."""
