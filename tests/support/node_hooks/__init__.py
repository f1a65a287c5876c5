"""On the Python path of brokers in tests of faults; see `sitecustomize`."""
