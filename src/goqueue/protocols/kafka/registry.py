"""How a handler says which API it serves, and in which versions.

A family is any object or module whose functions carry `@api`:

    class GroupApi(BrokerApi):
        @api(ApiKey.HEARTBEAT, 0, 4)
        async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response: ...

`Registry(GroupApi(broker), ...)` collects them; the ApiVersions answer is derived from the result.

A handler may be a coroutine function, or a plain function that returns its answer at once, or a
future of it. The plain kind costs no task: about two microseconds less for each request, which is
why Produce is one. It must not block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import versions

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.error_codes import ErrorCode
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.primitives import Cursor

__all__ = ["ApiKey", "ApiSpec", "BrokerApi", "Endpoint", "Registry", "api", "declared_specs"]

Handler: TypeAlias = "Callable[[RequestContext, Any], Response | Awaitable[Response | None] | None]"
"""None answers nothing at all: a Produce request with acks=0."""

Parse: TypeAlias = "Callable[[Cursor, int], Any]"
OnError: TypeAlias = "Callable[[RequestContext, Any, ErrorCode], Response]"

_ADVERTISED_BELOW_SERVED: Final = {ApiKey.PRODUCE: 0}
"""librdkafka 2.0 compresses nothing unless it sees Produce from 0, though it never sends 0 to 2."""

_STAMP: Final = "__kafka_api__"


class ApiSpec(msgspec.Struct, frozen=True):
    """What `@api` says about the function under it."""

    key: ApiKey
    first_version: int
    last_version: int
    pipelined: bool
    """It may start while earlier pipelined requests of its connection are unanswered. Without it
    a request starts, as in Kafka, when everything before it on its connection is answered."""
    long_poll: bool
    """It waits for something to happen, and what it changes it has changed before it waits. So it
    is cancelled when the client goes away or the server stops. Other handlers run to their end."""
    parse: Parse | None
    """A hand-written parser of the body, instead of the one derived from the schema."""
    on_error: OnError | None
    """Makes the answer for an error that the handler raised; without it the answer is the code at
    the top level, where the API has one there."""

    @property
    def advertised_from(self) -> int:
        """The lowest version that ApiVersions names."""
        return min(self.first_version, _ADVERTISED_BELOW_SERVED.get(self.key, self.first_version))


class Endpoint(msgspec.Struct, frozen=True):
    """A handler, ready to be called."""

    spec: ApiSpec
    handler: Handler


_F = TypeVar("_F", bound=Callable[..., Any])


def api(
    key: ApiKey,
    first_version: int,
    last_version: int,
    *,
    pipelined: bool = False,
    long_poll: bool = False,
    parse: Parse | None = None,
    on_error: OnError | None = None,
) -> Callable[[_F], _F]:
    """Declare that the function below serves these versions of an API. See `ApiSpec`."""
    spec = ApiSpec(key, first_version, last_version, pipelined, long_poll, parse, on_error)

    def stamp(function: _F) -> _F:
        setattr(function, _STAMP, spec)
        return function

    return stamp


class BrokerApi:
    """A family of handlers over one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker


class Registry:
    """Every handler by its API and version."""

    def __init__(self, *families: object) -> None:
        self.endpoints: dict[tuple[int, int], Endpoint] = {}
        """By API key and version."""
        self._specs: dict[int, ApiSpec] = {}
        for family in families:
            self.add(family)

    def add(self, family: object) -> None:
        """Take in the handlers of one family.

        Raises:
            ValueError: an API is declared twice, or in versions that clients would stumble over.
        """
        for endpoint in _endpoints_of(family):
            spec = endpoint.spec
            if spec.key in self._specs:
                raise ValueError(f"two handlers declare {spec.key.name}")
            _check_versions(spec)
            self._specs[spec.key] = spec
            for version in range(spec.first_version, spec.last_version + 1):
                self.endpoints[spec.key, version] = endpoint

    def specs(self) -> list[ApiSpec]:
        """Every API served, by its key."""
        return [self._specs[key] for key in sorted(self._specs)]


def _endpoints_of(family: object) -> Iterator[Endpoint]:
    home = family if isinstance(family, ModuleType) else type(family)
    for name, spec in _stamped(home):
        yield Endpoint(spec, getattr(family, name))


def declared_specs(home: type) -> list[ApiSpec]:
    """What the functions of a class declare, without an instance of it."""
    return [spec for _, spec in _stamped(home)]


def _stamped(home: object) -> Iterator[tuple[str, ApiSpec]]:
    for name in dir(home):
        spec = getattr(getattr(home, name), _STAMP, None)
        if isinstance(spec, ApiSpec):
            yield name, spec


def _check_versions(spec: ApiSpec) -> None:
    """Hold the declared versions against Kafka's: old clients look for exact minimums."""
    known = versions(spec.key)
    if spec.first_version != known[0]:
        raise ValueError(
            f"{spec.key.name} is declared from version {spec.first_version}; old clients fail or "
            f"fall back to old formats unless it starts at {known[0]}, as Kafka's does"
        )
    if not spec.first_version <= spec.last_version <= known[-1]:
        raise ValueError(
            f"{spec.key.name} is declared up to version {spec.last_version}; "
            f"there are schemas up to {known[-1]}"
        )
