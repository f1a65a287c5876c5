"""Replicas of partitions: what leaders and followers do with the others."""
