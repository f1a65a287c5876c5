"""A redrive of letters that a job names: asked for over HTTP, done by the broker.

The broker publishes each letter exactly once, whoever else asks for it at the same moment, and
whoever is killed meanwhile. A job that is killed leaves the broker to finish what it asked for.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.dead_letters import SUFFIX
from goqueue.spark import clock
from goqueue.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goqueue.spark.http_client import Http

_LOOK_S: Final = 0.1
_FASTEST: Final = 1_000_000
"""Messages a second: the highest rate that the broker takes."""


def source_path(letters_in: str) -> str:
    """Where the broker's HTTP side has what concerns the letters of a topic."""
    return "/topics/" + urllib.parse.quote(letters_in.removesuffix(SUFFIX), safe="")


def redrive_named(
    http: Http,
    letters_in: str,
    offsets: Mapping[int, Sequence[int]],
    *,
    to: str | None = None,
    rate: float | None = None,
    on_progress: Callable[[int], None] = lambda _done: None,
) -> dict[str, Any]:
    """Redrive letters by partition and offset, to where their headers say or all to one topic.

    Args:
        http: The broker.
        letters_in: The topic that holds the letters.
        offsets: The letters; those that were redriven meanwhile are left out.
        to: Another topic for all of them.
        rate: Messages a second.
        on_progress: Is told how many are redriven. What it raises cancels the rest.

    Returns:
        What the broker says: how many are `done` and `failed`, the `targets`, and `refused`
        letters, the first hundred of them.

    Raises:
        SparkSourceError: the broker is away, or refuses all of it; what was redriven until then is
            known to it.
    """
    body = {
        "letters_in": letters_in,
        "filter": {"offsets": {str(number): list(some) for number, some in offsets.items()}},
        "to": to,
        "to_source": to is None,
        "rate": None if rate is None else min(rate, _FASTEST),
    }
    try:
        asked = http.ask(f"{source_path(letters_in)}/dlq/redrive", body)
        found = _ended(http, asked, on_progress)
    except OSError as error:
        raise SparkSourceError(
            f"{http.url} does not say what became of letters of {letters_in} ({error}): run this "
            "again, and those that were not redriven are"
        ) from error
    if found["state"] != "done":
        raise SparkSourceError(
            f"the redrive of {letters_in} is {found['state']}: {found['error'] or 'by request'}; "
            "run this again, and those that were not redriven are"
        )
    return found


def _ended(
    http: Http, redrive: dict[str, Any], on_progress: Callable[[int], None]
) -> dict[str, Any]:
    """A redrive once it is over; cancelled, if whoever waits for it is interrupted."""
    path = f"/redrives/{redrive['id']}"
    found = redrive
    try:
        while found["ended_at"] is None:
            clock.sleep(_LOOK_S)
            found = http.ask(path)
            if found["started_at"] != redrive["started_at"]:
                return {"state": "unknown", "error": "the broker was restarted meanwhile"}
            on_progress(found["done"])
    except OSError:
        raise  # the number may be another redrive's by now
    except BaseException:
        with contextlib.suppress(OSError):
            http.ask(path, method="DELETE")
        raise
    return found
