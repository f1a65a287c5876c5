"""gRPC: one file a service, over the contract in `v1/goqueue.proto`."""
