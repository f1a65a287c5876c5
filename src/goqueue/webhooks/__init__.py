"""Webhooks: events of the cluster, posted to the servers that asked for them."""
