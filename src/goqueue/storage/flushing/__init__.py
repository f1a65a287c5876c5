"""When appended batches reach the disk: the contract, the schedule, and one flush."""
