"""The API described by itself: OpenAPI, a page to read it, a Postman collection."""

from __future__ import annotations

from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.responses import JSON, Response
from goqueue.protocols.http.api.rights import PUBLIC
from goqueue.protocols.http.api.route import route

if TYPE_CHECKING:
    from goqueue.protocols.http.api.router import Router

_TAG: Final = "documents"
_PAGE: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "content-security-policy",
    "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
)


class DocumentRoutes:
    """Documents, each made when it is first asked for."""

    def __init__(self, router: Router) -> None:
        self._router = router

    @cached_property
    def _openapi(self) -> dict[str, Any]:
        from goqueue.protocols.http.description.openapi import describe  # noqa: PLC0415 - a start needs none

        return describe(self._router)

    @route("GET", "/openapi.json", right=PUBLIC, tag=_TAG, answers={200: JSON}, place=LOCAL)
    async def openapi(self) -> Response:
        """This API as an OpenAPI 3.1 document."""
        return Response(200, msgspec.json.encode(self._openapi))

    @route("GET", "/postman.json", right=PUBLIC, tag=_TAG, answers={200: JSON}, place=LOCAL)
    async def postman(self) -> Response:
        """This API as a Postman collection."""
        from goqueue.protocols.http.description.postman import collection  # noqa: PLC0415 - a start needs none

        return Response(200, msgspec.json.encode(collection(self._openapi)))

    @route(
        "GET",
        "/docs",
        right=PUBLIC,
        tag=_TAG,
        is_page=True,
        answers={200: "text/html"},
        place=LOCAL,
    )
    async def docs(self) -> Response:
        """This API as a page to read, and to try."""
        page = (
            resources.files("goqueue.protocols.http.operations").joinpath("docs.html").read_bytes()
        )
        return Response(200, page, _PAGE, (_POLICY,))
