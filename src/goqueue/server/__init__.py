"""The composition root: configuration, wiring, lifecycle; it alone knows all other packages."""
