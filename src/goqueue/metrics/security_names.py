"""The metrics of the audit log and of certificates; see `names`."""

from __future__ import annotations

from typing import Final

from goqueue.metrics.kinds import Combine, CounterName, Definition, GaugeName

AUDIT_EVENTS: Final = CounterName("audit_events_total", "Events written to the audit log.")
AUDIT_DROPPED: Final = CounterName(
    "audit_events_dropped_total",
    "Events that are not in the audit log: its queue was full, or they could not be written.",
)
AUDIT_FAILED: Final = GaugeName(
    "audit_failed", "1 while the audit log cannot be written.", combine=Combine.MAX
)
AUDIT_UNCOPIED: Final = CounterName(
    "audit_events_uncopied_total",
    "Events that are in the file of the audit log and not in the topic `__audit`.",
)
TLS_RELOADS: Final = CounterName(
    "tls_reloads_total",
    "Certificates that changed on the disk, by whether they could be loaded.",
    ("outcome",),
)
TLS_STALE: Final = GaugeName(
    "tls_certificate_stale",
    "1 while the files of the certificate have changed and cannot be loaded: the old one is used.",
    combine=Combine.MAX,
)

OF_SECURITY: Final[tuple[Definition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Definition)
)
