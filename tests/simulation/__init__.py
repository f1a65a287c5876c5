"""A seeded world of virtual time: the cores of the cluster under faults, and an oracle."""
