"""Avro: schemas, compatibility, values as JSON."""
