"""Groups of the classic protocol: JoinGroup, SyncGroup, a generation at a time."""
