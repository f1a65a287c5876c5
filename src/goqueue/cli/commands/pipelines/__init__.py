"""Commands of pipelines and of the jobs beside them."""
