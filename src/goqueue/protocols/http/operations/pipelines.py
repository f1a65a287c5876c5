"""Spark pipelines: their drivers report progress, everyone else reads it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from goqueue.model.errors import TopicAuthorizationFailedError
from goqueue.model.internal_topics import PIPELINES
from goqueue.model.limits import MAX_PIPELINE_REPORT_BYTES
from goqueue.model.pipeline_reports import PipelineFields, PipelineReport
from goqueue.pipelines.service import unknown_pipeline
from goqueue.protocols.http.api.errors import FieldError
from goqueue.protocols.http.api.places import writer
from goqueue.protocols.http.api.rights import TOPIC_DESCRIBE, TOPIC_READ, within
from goqueue.protocols.http.api.route import BrokerRoutes, route
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.operations.operation_shapes import PipelineList, PipelineRemoved
from goqueue.protocols.permissions import Permissions

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
        right=within(TOPIC_READ, note="each that the pipeline reads, or stores dead letters in"),
        tag=_TAG,
        max_body_bytes=MAX_PIPELINE_REPORT_BYTES,
        place=writer(PIPELINES),
    )
    async def put(self, path: PipelinePath, body: PipelineBody, may: Permissions) -> PipelineReport:
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
        self._check_own(may, path.name, body)
        return await self._broker.pipelines.put(path.name, body)

    def _check_own(self, may: Permissions, name: str, body: PipelineFields | None = None) -> None:
        """Refuse to report for, or to remove, a pipeline whose topics the client may not read.

        Raises:
            TopicAuthorizationFailedError: it may not; the text does not tell what is there.
        """
        reports: list[PipelineFields] = [] if body is None else [body]
        reports += [each for each in self._broker.pipelines.all() if each.name == name]
        topics = set().union(*(topics_of(name, each) for each in reports)) or {name}
        if not all(may.allows(TOPIC_READ, each) for each in topics):
            raise TopicAuthorizationFailedError(
                f"{may.principal.label} lacks the right READ on the topics of pipeline {name!r}: "
                "ask an administrator for a role or a rule that allows it"
            )

    def _seen(self, may: Permissions, name: str) -> PipelineReport:
        """A report, if the client may see all its topics; otherwise it is as if there were none."""
        report = self._broker.pipelines.get(name)
        if not _is_visible(may, report):
            raise unknown_pipeline(name)
        return report

    @route(
        "GET",
        "/pipelines",
        right=within(TOPIC_DESCRIBE, note="the pipelines of which it covers all topics"),
        tag=_TAG,
        place=writer(PIPELINES),
    )
    async def list(self, may: Permissions) -> PipelineList:
        """List the pipelines with their newest reports."""
        found = self._broker.pipelines.all()
        return PipelineList([each for each in found if _is_visible(may, each)])

    @route(
        "GET",
        "/pipelines/{name}",
        right=within(TOPIC_DESCRIBE, note="each that the pipeline reads or writes"),
        tag=_TAG,
        place=writer(PIPELINES),
    )
    async def get(self, path: PipelinePath, may: Permissions) -> PipelineReport:
        """The newest report of one pipeline."""
        return self._seen(may, path.name)

    @route(
        "DELETE",
        "/pipelines/{name}",
        right=within(TOPIC_READ, note="each that the pipeline reads, or stores dead letters in"),
        tag=_TAG,
        place=writer(PIPELINES),
    )
    async def delete(self, path: PipelinePath, may: Permissions) -> PipelineRemoved:
        """Remove a pipeline. A running one reappears with its next report."""
        self._check_own(may, path.name)
        await self._broker.pipelines.delete(path.name)
        return PipelineRemoved(path.name)


def topics_of(name: str, report: PipelineFields) -> set[str]:
    """The topics that the queries of a pipeline read and write, as far as they say so.

    One that says none is guarded as a topic of its name would be.
    """
    named = {source for query in report.queries for source in query.sources}
    named |= {query.dead_letters for query in report.queries if query.dead_letters}
    return named or {name}


def _is_visible(may: Permissions, report: PipelineReport) -> bool:
    return all(may.allows(TOPIC_DESCRIBE, topic) for topic in topics_of(report.name, report))
