"""The partitions of this node: log, watermarks, producer state, retention and compaction."""
