"""gRPC: one file a service, over the contract in `wire/grpc/v1/goqueue.proto`."""
