"""Publishing: messages into batches, batches to the leaders of their partitions, answers back."""
