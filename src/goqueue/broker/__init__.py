"""Topics, partitions and the use cases, in the order a message meets them. Knows no protocol."""
