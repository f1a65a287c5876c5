"""Queue groups: each message has a state of its own, and lanes and weights choose the next one."""
