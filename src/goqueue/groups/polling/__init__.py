"""Members of groups that the broker reads for: HTTP and gRPC clients poll, and get messages."""
