"""Which right an API needs: what `right=` of `@api` says, and what a client without it is told.

    @api(ApiKey.HEARTBEAT, right=group(READ))
    @api(ApiKey.DELETE_RECORDS, right=each_topic(DELETE, _not_deleted))

The rights are Kafka's. A request that names many topics is served for those that the client may
use; the others are answered with TOPIC_AUTHORIZATION_FAILED, whether they exist or not. Where a
handler has to look inside its request to find the names, it asks `ctx.may` itself, and its
declaration says so by `within`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.access.rights import CLUSTER_NAME, Operation, ResourceType, Right
from goqueue.model.errors import ClusterAuthorizationFailedError
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.protocols.kafka.context import RequestContext, Struct

    Refuse = Callable[[Struct, ErrorCode], dict[str, Any]]
    """What an answer says of an element of the request that is refused."""

READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
CREATE: Final = Operation.CREATE
DELETE: Final = Operation.DELETE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE
CLUSTER_ACTION: Final = Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS: Final = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = Operation.ALTER_CONFIGS

TOPIC_READ: Final = Right(ResourceType.TOPIC, READ)
TOPIC_WRITE: Final = Right(ResourceType.TOPIC, WRITE)
TOPIC_CREATE: Final = Right(ResourceType.TOPIC, CREATE)
TOPIC_DELETE: Final = Right(ResourceType.TOPIC, DELETE)
TOPIC_DESCRIBE: Final = Right(ResourceType.TOPIC, DESCRIBE)
TOPIC_DESCRIBE_CONFIGS: Final = Right(ResourceType.TOPIC, DESCRIBE_CONFIGS)
GROUP_READ: Final = Right(ResourceType.GROUP, READ)
GROUP_DESCRIBE: Final = Right(ResourceType.GROUP, DESCRIBE)
ID_WRITE: Final = Right(ResourceType.TRANSACTIONAL_ID, WRITE)
ID_DESCRIBE: Final = Right(ResourceType.TRANSACTIONAL_ID, DESCRIBE)
CLUSTER_CREATE: Final = Right(ResourceType.CLUSTER, CREATE)
CLUSTER_DESCRIBE: Final = Right(ResourceType.CLUSTER, DESCRIBE)
IDEMPOTENT_WRITE: Final = Right(ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)

REFUSED: Final = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}


class Needs:
    """What a client must be allowed to do."""

    def __init__(self, *rights: Right, note: str = "") -> None:
        self.rights = rights
        self.note = note
        """What the rights alone do not tell, for the reference page."""

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        """The request, without the parts that are refused.

        Raises:
            AuthorizationFailedError: all of it is.
        """
        del ctx
        return request

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        """For the reference page: rights of which one is needed, and of what."""
        yield self.rights, self.note


ANYONE: Final = Needs(note="any client that may connect")
"""Every client that the listener has let in."""


class _BetweenNodes(Needs):
    def admit(self, ctx: RequestContext, request: Any) -> Any:
        if ctx.peer.session.node is None:
            raise ClusterAuthorizationFailedError("this request is for nodes of the cluster alone")
        return request


NODES: Final = _BetweenNodes(note="nodes of the cluster, on the internal listener")
"""Nodes that have proven themselves by Hello; such handlers are not on other listeners either."""


def within(*rights: Right, note: str = "") -> Needs:
    """Rights that the handler asks for itself, by `ctx.may`, of what it finds in the request."""
    return Needs(*rights, note=note)


class _Named(Needs):
    """A right on the one resource that a field names."""

    def __init__(self, right: Right, field: str) -> None:
        super().__init__(right)
        self._field = field

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        ctx.may.require(self.rights[0], getattr(request, self._field) or "")
        return request


def group(operation: Operation, field: str = "group_id") -> Needs:
    """A right on the group of a request."""
    return _Named(Right(ResourceType.GROUP, operation), field)


def transactional_id(operation: Operation, field: str = "transactional_id") -> Needs:
    """A right on the transactional id of a request."""
    return _Named(Right(ResourceType.TRANSACTIONAL_ID, operation), field)


class _OnCluster(Needs):
    def admit(self, ctx: RequestContext, request: Any) -> Any:
        if not any(ctx.may.allows(right, CLUSTER_NAME) for right in self.rights):
            ctx.may.require(self.rights[0], CLUSTER_NAME)
        return request


def cluster(*operations: Operation) -> Needs:
    """One of these rights on the cluster."""
    return _OnCluster(*(Right(ResourceType.CLUSTER, each) for each in operations))


class _Each(Needs):
    """A right on what each element of an array names; the others are refused one by one."""

    def __init__(
        self, right: Right, refuse: Refuse, *, array: str, name: str | None, answers: str
    ) -> None:
        super().__init__(right, note="each")
        self._refuse = refuse
        self._array = array
        self._name = name
        self._answers = answers

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        (right,) = self.rights
        kept: list[Any] = []
        refused: list[Any] = []
        for each in getattr(request, self._array) or ():
            name = each if self._name is None else getattr(each, self._name)
            (kept if ctx.may.permits(right, name or "") else refused).append(each)
        if not refused:
            return request
        code = REFUSED[right.resource]
        ctx.refuse(self._answers, [self._refuse(each, code) for each in refused])
        return request.replaced(**{self._array: kept})


def each_topic(
    operation: Operation,
    refuse: Refuse,
    *,
    array: str = "topics",
    name: str | None = "name",
    answers: str = "topics",
) -> Needs:
    """A right on each topic in an array; the answer has an array of the results."""
    right = Right(ResourceType.TOPIC, operation)
    return _Each(right, refuse, array=array, name=name, answers=answers)


def each_group(
    operation: Operation,
    refuse: Refuse,
    *,
    array: str = "groups",
    name: str | None = None,
    answers: str = "groups",
) -> Needs:
    """The same of groups."""
    right = Right(ResourceType.GROUP, operation)
    return _Each(right, refuse, array=array, name=name, answers=answers)


def each_transactional_id(
    operation: Operation, refuse: Refuse, *, array: str, name: str | None = None, answers: str
) -> Needs:
    """The same of transactional ids."""
    right = Right(ResourceType.TRANSACTIONAL_ID, operation)
    return _Each(right, refuse, array=array, name=name, answers=answers)


class _All(Needs):
    def __init__(self, *needs: Needs) -> None:
        super().__init__(*(right for each in needs for right in each.rights))
        self._needs = needs

    def admit(self, ctx: RequestContext, request: Any) -> Any:
        for each in self._needs:
            request = each.admit(ctx, request)
        return request

    def rows(self) -> Iterator[tuple[tuple[Right, ...], str]]:
        for each in self._needs:
            yield from each.rows()


def all_of(*needs: Needs) -> Needs:
    """Each of these, in this order."""
    return _All(*needs)


def code_of(right: Right) -> ErrorCode:
    """What a client without this right is told."""
    return REFUSED[right.resource]
