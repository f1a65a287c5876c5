"""Spark pipelines: their drivers report progress, everyone else reads it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.model.internal_topics import PIPELINES
from goqueue.model.limits import MAX_PIPELINE_REPORT_BYTES
from goqueue.model.pipeline_reports import PipelineFields, PipelineReport
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.places import writer
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.operations.operation_shapes import PipelineList, PipelineRemoved

_TAG: Final = "pipelines"
_LONGEST_INTERVAL_MS: Final = 24 * 3600 * 1000


class PipelinePath(msgspec.Struct, frozen=True):
    """A pipeline in the path."""

    name: Annotated[str, doc("The pipeline.", "revenue", min_length=1, max_length=249)]


class PipelineBody(PipelineFields, kw_only=True, frozen=True):
    """The report of a driver; unknown fields are ignored."""

    name: Annotated[str | None, doc("Same as in the path.")] = None
    interval_ms: Annotated[
        int, doc("How often it reports.", 10_000, ge=100, le=_LONGEST_INTERVAL_MS)
    ] = 10_000


class PipelineRoutes(BrokerRoutes):
    """Reports of pipelines."""

    @route(
        "PUT",
        "/pipelines/{name}",
        tag=_TAG,
        max_body_bytes=MAX_PIPELINE_REPORT_BYTES,
        place=writer(PIPELINES),
    )
    async def put(self, path: PipelinePath, body: PipelineBody) -> PipelineReport:
        """Report the progress of a pipeline, in place of the last report.

        Drivers report every `interval_ms`. A running pipeline without a report for three intervals
        is `lost`.
        """
        if body.name not in {None, path.name}:
            raise FieldError(
                f"the body is about pipeline {body.name!r}, the path about {path.name!r}",
                field="name",
                expected="the name in the path, or none",
            )
        return await self._broker.pipelines.put(path.name, body)

    @route("GET", "/pipelines", tag=_TAG, place=writer(PIPELINES))
    async def list(self) -> PipelineList:
        """List the pipelines with their newest reports."""
        return PipelineList(self._broker.pipelines.all())

    @route("GET", "/pipelines/{name}", tag=_TAG, place=writer(PIPELINES))
    async def get(self, path: PipelinePath) -> PipelineReport:
        """The newest report of one pipeline."""
        return self._broker.pipelines.get(path.name)

    @route("DELETE", "/pipelines/{name}", tag=_TAG, place=writer(PIPELINES))
    async def delete(self, path: PipelinePath) -> PipelineRemoved:
        """Remove a pipeline. A running one reappears with its next report."""
        await self._broker.pipelines.delete(path.name)
        return PipelineRemoved(path.name)
