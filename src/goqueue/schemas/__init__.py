"""The schema registry: subjects and versions, compatibility, and validators of messages."""
