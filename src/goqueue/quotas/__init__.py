"""Quotas: how much clients and tenants may publish, read, ask for and keep."""
