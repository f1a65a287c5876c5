"""From the description of a pipeline to running queries."""
