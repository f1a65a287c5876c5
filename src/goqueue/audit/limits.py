"""Bounds of the audit log, and what happens at each."""

from __future__ import annotations

from typing import Final

MAX_QUEUED: Final = 10_000
"""Events that wait for the writer. At the bound further ones are dropped and counted, and the count
is written to the log as an event of its own: no client waits for the disk of the audit log."""
MAX_BATCH: Final = 500
"""Events that are written and synced together; the others wait for the next write."""
MAX_TEXT_CHARS: Final = 512
"""Of a name, an address or a detail; the rest is cut off and replaced by `…`."""
MAX_DETAILS: Final = 16
"""Details of one event; further ones are left out."""
MAX_LINE_BYTES: Final = 128 * 1024
"""One line as it is read again; a longer one was not written by this log, and is reported."""
MAX_HOPS: Final = 32
"""Addresses of `X-Forwarded-For` that are looked at, from the right; the last one of them counts
when all are of trusted proxies."""
MAX_COUNTED_REFUSALS: Final = 1000
"""Rights of principals on resources whose refusals are counted one by one; those of further ones
are counted together, and a line without a principal has their number."""
MAX_NOTED_LOGINS: Final = 10_000
"""Logins of which it is remembered that they were written; at the bound all are written anew."""
MAX_COPIED: Final = 10_000
"""Lines that wait for the topic `__audit`; further ones are in the file only, and counted."""
