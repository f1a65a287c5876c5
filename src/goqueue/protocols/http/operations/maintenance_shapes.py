"""What is answered about maintenance."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.protocols.http.api.shapes import doc


class MaintenanceStatus(msgspec.Struct):
    """Whether anything is deleted by its age."""

    status: Annotated[str, doc("`running`, or `stopped` by a jump of the wall clock.", "running")]
    reason: Annotated[str | None, doc("Why it is stopped, and what to do.")] = None
    clock_jump_ms: Annotated[
        int, doc("How far the wall clock is from where it should be; 0 when it has not jumped.", 0)
    ] = 0


class MaintenanceResumed(msgspec.Struct):
    """That retention and TTL go on."""

    resumed: Annotated[bool, doc("Whether they were stopped.")]
    accepted_jump_ms: Annotated[int, doc("The jump of the wall clock that was accepted.", 0)]
