"""The contract, `goqueue.proto`, and the Python that `make proto` makes of it."""
