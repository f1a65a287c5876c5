"""What the nodes agree on: the metadata store, and who this cluster is."""
