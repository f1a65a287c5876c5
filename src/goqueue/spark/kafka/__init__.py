"""A small synchronous client of the Kafka protocol, for tasks and for the planner on the driver.

`connection` is one socket, `login` what goes over it first, `cluster` knows who leads what and
tries again, `fetching` turns ranges of offsets into batches.
Tasks need no third-party client, so what runs on an executor is the wheel and nothing else.
"""
