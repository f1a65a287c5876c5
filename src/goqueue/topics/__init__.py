"""The topics: their names, partition counts and settings, kept in the metadata store."""
