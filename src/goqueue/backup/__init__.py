"""Backup and restore of everything that a broker or a cluster stores."""
