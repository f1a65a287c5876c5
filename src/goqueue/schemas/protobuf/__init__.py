"""Protobuf: parser, compatibility, values as JSON."""
