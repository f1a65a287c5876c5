"""A client of the broker's HTTP API and of schema registries, on the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final

_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Http:
    """An HTTP server, and the key to send it."""

    url: str
    """As in `http://127.0.0.1:8080`. Of a cluster, several with commas between them: the first that
    can be connected to is asked."""
    api_key: str | None = field(default=None, repr=False)

    def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Any:
        """The JSON response to a request: a GET, or a POST where there is a body.

        Raises:
            OSError: cannot connect, or the response is no JSON; an `HTTPError` when the status is
                an error.
        """
        failure: OSError | None = None
        for url in self.url.split(","):
            try:
                return self._ask(url.strip().rstrip("/"), path, body, method, timeout_s)
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError as error:  # of a connection that was never made
                failure = error
        assert failure is not None  # there is one address at least
        raise failure

    def _ask(self, url: str, path: str, body: Any, method: str | None, timeout_s: float) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key is not None:
            headers["X-API-Key"] = self.api_key
        request = urllib.request.Request(  # noqa: S310 - the address is the user's own
            url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310 - as above
                return json.load(answer)
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"{url} does not answer with JSON ({error!r})") from error
