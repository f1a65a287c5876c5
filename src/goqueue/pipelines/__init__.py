"""What running Spark pipelines report."""
