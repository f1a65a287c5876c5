"""Access control lists: there are none yet, and the three calls for them say so as Kafka does.

A broker without an authorizer answers SECURITY_DISABLED, so that tools can tell "no rules exist"
from "rules are not checked here".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_DISABLED: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "this broker has no authorizer: every user may do everything, and no rule "
    "is stored",
}


class AclsApi:
    """Refuses to show, create and delete rules that nothing would check."""

    @api(ApiKey.DESCRIBE_ACLS, 1, 3)
    def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """No rules, and why."""
        return {**_DISABLED, "resources": []}

    @api(ApiKey.CREATE_ACLS, 1, 3)
    def create(self, ctx: RequestContext, request: Struct) -> Response:
        """One refusal for each rule."""
        return {"results": [_DISABLED for _ in request.creations]}

    @api(ApiKey.DELETE_ACLS, 1, 3)
    def delete(self, ctx: RequestContext, request: Struct) -> Response:
        """One refusal for each filter."""
        return {"filter_results": [{**_DISABLED, "matching_acls": []} for _ in request.filters]}
