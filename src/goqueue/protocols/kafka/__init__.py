"""The Kafka protocol: from a TCP socket to a typed request, and back; see README.md."""
