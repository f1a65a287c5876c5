"""A pipeline to look at, with the data for it: what `goqueue pipeline demo` runs."""
