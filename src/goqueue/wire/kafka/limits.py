"""Bounds of what is read from a Kafka connection, with what happens at each."""

from typing import Final

MAX_ELEMENTS: Final = 65_536
"""Array elements and tagged fields of one request together; one with more is malformed."""

MAX_STRING_BYTES: Final = 32_767
"""One string, in both encodings, as Kafka bounds it. A request with a longer one is malformed."""
