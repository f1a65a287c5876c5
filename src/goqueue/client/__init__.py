"""The Python client: one implementation on asyncio, and the same for programs without it."""
