"""What is wrong with a pipeline, found without Spark and without a broker."""
