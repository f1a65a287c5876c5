"""What a query asks for: Spark's options, read once, with every problem reported together."""
