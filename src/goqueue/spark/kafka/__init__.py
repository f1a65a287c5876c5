"""The Python client's link to a cluster, for tasks and for the planner on the driver.

`cluster` runs what is asked on the loop of the process and waits for it, `fetching` turns ranges of
offsets into batches, `producing` writes the batches of a task.
Tasks need no third-party client, so what runs on an executor is the wheel and nothing else.
"""
