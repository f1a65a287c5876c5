"""The one home of time and of the disk, so that tests can replace both."""
