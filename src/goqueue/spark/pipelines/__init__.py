"""Pipelines: topics in, SQL or Python in the middle, topics and tables out."""
