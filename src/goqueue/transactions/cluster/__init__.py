"""Transactions whose coordinator, partitions and groups are on different nodes."""
