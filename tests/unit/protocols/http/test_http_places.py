"""Every route says which node of a cluster answers it, and looks for that where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.handler_types import Types
from goqueue.protocols.http.api.merging import by_name, total
from goqueue.protocols.http.api.parts import Part
from goqueue.protocols.http.api.places import LOCAL, gather, group, pages
from goqueue.protocols.http.routes import build_router
from support.cluster_api import ApiNode, NodeApi
from support.cluster_brokers import one_of_three
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path


@scenario
async def test_every_route_declares_a_place_that_finds_what_it_looks_for(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        node: Any = ApiNode(made)
        endpoints = build_router(node).endpoints
        assert len(endpoints) > 150
        for each in endpoints:
            where = f"{each.route.method} {each.route.path}"
            assert each.route.place is not None, f"{where} does not say who answers it"
            each.route.place.check(each.types)
            if "/groups/{group}" in each.route.path and "/admin/" not in each.route.path:
                assert each.route.place is not LOCAL, f"{where} is about a group"


class Query(msgspec.Struct):
    group: str | None = None
    limit: int = 1


class Plain(msgspec.Struct):
    rows: list[int]


@pytest.mark.parametrize("text", ["path.group", "query.other", "body.group"])
def test_a_place_that_looks_for_what_requests_do_not_have_is_found(text):
    with pytest.raises(ValueError, match="is no field"):
        group(text).check(Types(query=Query))
    group("query.group").check(Types(query=Query))


def test_an_answer_that_cannot_name_missing_nodes_is_found():
    for place in (gather(total), group("query.group", otherwise=gather(total))):
        with pytest.raises(ValueError, match="no `Gathered`"):
            place.check(Types(query=Query, answer=Plain))
    with pytest.raises(ValueError, match=r"query\.skip"):
        pages("rows").check(Types(query=Query, answer=Plain))


# --- Merging --------------------------------------------------------------------------------------


class Inner(msgspec.Struct):
    name: str
    count: int


class Counts(Gathered):
    name: str
    count: int
    share: float
    is_on: bool
    last: int | None
    levels: list[int]
    by_topic: dict[str, int]
    inner: Inner


def test_numbers_are_added_and_names_are_kept():
    parts = [
        Part(1, Counts("a", 1, 0.5, True, None, [1, 2], {"x": 1}, Inner("i", 1))),
        Part(2, Counts("b", 2, 0.25, False, 7, [3, 4], {"x": 2, "y": 5}, Inner("j", 4))),
        Part(3, Counts("c", 4, 0.0, False, None, [0, 0], {}, Inner("k", 0))),
    ]
    assert total(parts, {}) == Counts(
        "a", 7, 0.75, True, 7, [4, 6], {"x": 3, "y": 5}, Inner("i", 5)
    )
    assert total(parts[:1], {}) == parts[0].answer


def test_lines_are_told_once_and_in_order():
    lines = [Inner("b", 1), Inner("a", 2), Inner("b", 3)]
    assert by_name(lines, "name") == [Inner("a", 2), Inner("b", 3)]


# --- One of three nodes, of which the others do not answer ----------------------------------------


@scenario
async def test_a_request_for_another_node_may_be_sent_again_when_that_is_away(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(2, 2)
        status, answer = await NodeApi(made).ask("GET", "/groups/g")
        assert (status, answer["code"], answer["retriable"]) == (503, "peer_unavailable", True)


@scenario
async def test_a_wait_that_is_too_long_is_refused_by_the_name_of_its_field(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(2, 2)
        status, answer = await NodeApi(made).ask("GET", "/groups/g/poll?member_id=m&timeout=61s")
        assert (status, answer["field"], answer["location"]) == (400, "timeout", "query")


@scenario
async def test_a_request_that_was_forwarded_to_the_wrong_node_goes_no_further(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(2, 2)
        status, answer = await NodeApi(made).ask("GET", "/groups/g", sender=3)
        assert (status, answer["code"], answer["retriable"]) == (503, "not_coordinator", True)
        assert "node 3 has forwarded this to node 1, and node 2 coordinates it" in answer["detail"]


@scenario
async def test_a_list_names_the_nodes_that_did_not_answer(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(1, 1)
        await made.loaded("g")
        status, answer = await NodeApi(made).ask("GET", "/groups")
        assert status == 200
        assert [each["node_id"] for each in answer["unanswered"]] == [2, 3]
        await made.fence(3)
        _, answer = await NodeApi(made).ask("GET", "/rebalance/stats")
        assert answer["unanswered"][1] == {"node_id": 3, "error": "node 3 is fenced"}


@scenario
async def test_the_part_of_a_node_is_its_own(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.offsets_topic(1, 1)
        await made.loaded("g")
        for path in ("/groups", "/overview", "/stats"):
            status, answer = await NodeApi(made).ask("GET", path, sender=2, is_part=True)
            assert status == 200
            assert "unanswered" not in answer


@scenario
async def test_a_request_before_the_topic_of_groups_is_made_may_be_sent_again(
    tmp_path: Path,
) -> None:
    async with one_of_three(tmp_path) as made:
        status, answer = await NodeApi(made).ask("GET", "/groups/g/offsets")
        assert (status, answer["retriable"]) == (503, True), answer
