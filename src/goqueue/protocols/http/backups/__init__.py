"""Backup and restore over HTTP."""
