"""What commands that run Spark share."""
