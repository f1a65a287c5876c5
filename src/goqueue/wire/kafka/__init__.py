"""The Kafka protocol on the network, both directions; see README.md."""
