"""The gRPC contract and the stubs made from it, for the server and for clients."""
