"""JSON Schema: schemas, compatibility, validation within limits."""
