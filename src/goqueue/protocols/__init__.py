"""The wires: each package turns one protocol's bytes into the broker's use cases and back."""
