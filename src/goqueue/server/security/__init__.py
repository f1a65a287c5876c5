"""Certificates, the audit log, and whether a listener may be reached; see README.md."""
