"""Consuming over the Kafka wire: one partition, a topic, or as a member of a group."""
