"""How a handler says which API it serves.

A family is any object or module whose functions carry `@api`:

    class GroupApi(BrokerApi):
        @api(ApiKey.HEARTBEAT, right=group(READ))
        async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response: ...

`Registry(GroupApi(broker), ...)` collects them. Their versions are in `served.py`: ApiVersions is
answered before all handlers are loaded.

A handler may be a coroutine function, or a plain function that returns its answer at once, or a
future of it. The plain kind costs no task: about two microseconds less for each request, which is
why Produce is one. It must not block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.rights import Needs
from goqueue.protocols.kafka.served import SERVED
from goqueue.protocols.permissions import OPEN, Decides
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import versions

if TYPE_CHECKING:
    from goqueue.audit.access_trail import AccessTrail
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import Peer, RequestContext
    from goqueue.protocols.kafka.throttling import Throttling
    from goqueue.wire.kafka.error_codes import ErrorCode
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.primitives import Buffer, Cursor

__all__ = ["ApiKey", "ApiSpec", "BrokerApi", "Endpoint", "Registry", "api", "declared_specs"]

Handler: TypeAlias = "Callable[[RequestContext, Any], Response | Awaitable[Response | None] | None]"
"""None answers nothing at all: a Produce request with acks=0."""

Straight: TypeAlias = (
    "Callable[[memoryview, Peer, int, int], bytes | list[Buffer] | Waiting | None]"
)
"""Serves a whole frame of its API, in a buffer that is used again at once: told the version and the
number of the request, it returns the frame of the answer, whole or in parts, empty where none is
wanted, or what is to be waited for. None when it is not a request that goes straight, and nothing
has been changed."""

Parse: TypeAlias = "Callable[[Cursor, int], Any]"
OnError: TypeAlias = "Callable[[RequestContext, Any, ErrorCode], Response]"

_STAMP: Final = "__kafka_api__"

_BEFORE_LOGIN: Final = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)


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
    right: Needs
    """What a client must be allowed to do."""
    straight: Callable[..., Any] | None = None
    """A method of the same family that serves the usual requests at less cost. See `Straight`."""


class Endpoint(msgspec.Struct, frozen=True):
    """A handler, ready to be called."""

    spec: ApiSpec
    handler: Handler
    straight: Straight | None = None


class Waiting(NamedTuple):
    """An answer that is still to come to a request that went straight."""

    ctx: RequestContext
    response: Awaitable[Response | None]
    request: Any = None
    """What was asked for, where an answer that says why not names it."""


_F = TypeVar("_F", bound=Callable[..., Any])


def api(
    key: ApiKey,
    *versions: int,
    right: Needs,
    pipelined: bool = False,
    long_poll: bool = False,
    parse: Parse | None = None,
    on_error: OnError | None = None,
    straight: Callable[..., Any] | None = None,
) -> Callable[[_F], _F]:
    """Declare that the function below serves an API. See `ApiSpec`.

    The first and the last of its `versions` are those in `SERVED` unless they are given.
    """
    first, last = versions or SERVED[key]
    spec = ApiSpec(key, first, last, pipelined, long_poll, parse, on_error, right, straight)

    def stamp(function: _F) -> _F:
        setattr(function, _STAMP, spec)
        return function

    return stamp


def namespaces() -> ModuleType:
    """What translates the messages of tenants' clients; others need not load it."""
    from goqueue.protocols.kafka import namespaces as found  # noqa: PLC0415 - see above

    return found


class BrokerApi:
    """A family of handlers over one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker


class Registry:
    """Every handler by its API and version."""

    def __init__(
        self,
        *families: object,
        before_login: frozenset[ApiKey] = _BEFORE_LOGIN,
        authorizer: Decides = OPEN,
        throttling: Throttling | None = None,
        trail: AccessTrail | None = None,
    ) -> None:
        """Collect handlers; those `before_login` are served before a peer has said who it is.

        `authorizer` decides what clients may do, `throttling` makes them wait. Refusals, and
        logins by certificates, are written to `trail`.
        """
        self.authorizer = authorizer
        self.throttling = throttling
        self.trail = trail
        self.before_login: frozenset[int] = before_login
        self.endpoints: dict[tuple[int, int], Endpoint] = {}
        """By API key and version."""
        self.straight: dict[int, tuple[Endpoint, Straight]] = {}
        """Those that serve whole frames, by API key and version as one number."""
        self.is_complete = True
        """Whether other APIs than these are not served at all; otherwise requests of them wait."""
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
            for version in _versions(spec):
                self.endpoints[spec.key, version] = endpoint
        self.add_straight(family)

    def add_straight(self, family: object) -> None:
        """Take in what a family serves straight, and nothing else of it."""
        for endpoint in _endpoints_of(family):
            if endpoint.straight is not None:
                for version in _versions(endpoint.spec):
                    number = endpoint.spec.key << 16 | version
                    self.straight[number] = endpoint, endpoint.straight

    def only(self, key: ApiKey, version: int) -> None:
        """Leave the other versions of an API to somebody else; see `fill`."""
        for other in [each for each in self.endpoints if each[0] == key and each[1] != version]:
            del self.endpoints[other]
            self.straight.pop(key << 16 | other[1], None)

    def fill(self, other: Registry) -> None:
        """Serve what another registry serves and this one does not, but for logins."""
        for (key, version), endpoint in other.endpoints.items():
            if key not in other.before_login:
                self.endpoints.setdefault((key, version), endpoint)
                self._specs.setdefault(key, endpoint.spec)
        for number, straight in other.straight.items():
            self.straight.setdefault(number, straight)

    def versions(self) -> dict[int, tuple[int, int]]:
        """The first and the last version of each API, also of those that are loaded later."""
        known: dict[int, tuple[int, int]] = {} if self.is_complete else dict(SERVED.items())
        known |= {key: (each.first_version, each.last_version) for key, each in self._specs.items()}
        return {key: known[key] for key in sorted(known)}


def _endpoints_of(family: object) -> Iterator[Endpoint]:
    home = family if isinstance(family, ModuleType) else type(family)
    for name, spec in _stamped(home):
        straight = None if spec.straight is None else getattr(family, spec.straight.__name__)
        yield Endpoint(spec, getattr(family, name), straight)


def _versions(spec: ApiSpec) -> range:
    return range(spec.first_version, spec.last_version + 1)


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
