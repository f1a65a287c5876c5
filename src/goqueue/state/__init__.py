"""A coordinator's state on an internal partition: stored, replayed, kept in snapshots."""
