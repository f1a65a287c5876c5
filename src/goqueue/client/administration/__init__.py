"""What operators do: topics, groups, queues, dead letters, schemas, traces, the cluster.

Everything is asked of the broker's HTTP API, over the connections that messages go by.
"""
