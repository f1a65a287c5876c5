"""One file a command group of `goqueue`; each is found by its name."""
