"""The client for programs without asyncio: blocking classes, derived from the async ones."""
