"""Groups of Kafka Streams applications (KIP-1071): tasks over a topology."""
