"""Many dead letters over HTTP: pages, groups of errors, an edit before a redrive, deleting some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.http_api import HttpApi


def letter(value: str, error: str, reason: str = "REJECTED", **more: Any) -> dict[str, Any]:
    """A message as it is among the dead letters."""
    headers = {"goqueue-dlq-reason": reason, "goqueue-dlq-error": error, "goqueue-dlq-group": "g"}
    return {"value": value, "headers": {**headers, "kept": "yes"}, "partition": 0, **more}


@pytest.fixture
def dead(api: HttpApi, topic: str) -> str:
    """A topic with six dead letters of three errors, in a partition each for itself."""
    api.post("/topics", {"name": f"{topic}.dlq", "num_partitions": 2})
    errors = [f"no customer {number}" for number in (17, 18, 19)]
    messages = [letter(str(at), error) for at, error in enumerate(errors)]
    messages += [
        letter("3", "out of stock", partition=1),
        letter("4", "out of stock", partition=1),
        letter("5", "", "MAX_RETRIES_EXCEEDED", partition=1),
    ]
    api.post(f"/topics/{topic}.dlq/messages", {"messages": messages})
    return topic


def values(api: HttpApi, topic: str, query: str = "") -> list[str]:
    return [each["preview"] for each in api.get(f"/topics/{topic}/dlq?{query}")["letters"]]


def redriven(api: HttpApi, topic: str, **body: Any) -> dict[str, Any]:
    answer = api.ask("POST", f"/topics/{topic}/dlq/redrive", body)
    assert answer.status == 202, answer
    path = f"/redrives/{answer.json['id']}"
    found: dict[str, Any] = eventually(lambda: f if (f := api.get(path))["ended_at"] else None)
    return found


def test_dead_letters_are_read_page_by_page_and_each_is_on_one_page(
    api: HttpApi, dead: str
) -> None:
    pages: list[Sequence[str]] = []
    cursor = ""
    while True:
        answer = api.get(f"/topics/{dead}/dlq?limit=2{cursor}")
        pages.append([each["preview"] for each in answer["letters"]])
        if answer["next"] is None:
            break
        cursor = f"&cursor={answer['next']}"
    assert pages == [["0", "1"], ["2", "3"], ["4", "5"]]
    refused = api.ask("GET", f"/topics/{dead}/dlq?cursor=later")
    assert (refused.status, refused.json["field"]) == (400, "cursor")


def test_errors_that_differ_in_numbers_are_one_group(api: HttpApi, dead: str) -> None:
    answer = api.get(f"/topics/{dead}/dlq/errors")
    found = [(each["reason"], each["error"], each["count"]) for each in answer["errors"]]
    assert found == [
        ("REJECTED", "no customer #", 3),
        ("REJECTED", "out of stock", 2),
        ("MAX_RETRIES_EXCEEDED", "", 1),
    ]
    assert (answer["letters"], answer["others"], answer["next"]) == (6, 0, None)
    assert answer["errors"][0]["example"]["preview"] == "2"
    assert values(api, dead, "error=no%20customer%204711") == ["0", "1", "2"]
    assert values(api, dead, "error=") == ["5"]
    assert values(api, dead, "error=no") == []


def test_deleted_letters_are_neither_listed_nor_redriven(api: HttpApi, dead: str) -> None:
    by_error = {"filter": {"error": "no customer #", "offsets": {"0": [0, 1], "1": [0]}}}
    assert api.post(f"/topics/{dead}/dlq/delete", by_error)["deleted"] == 2
    assert api.post(f"/topics/{dead}/dlq/delete", by_error)["deleted"] == 0
    assert values(api, dead) == ["2", "3", "4", "5"]
    assert api.get(f"/topics/{dead}/dlq/0/0")["is_redriven"]
    named = {"filter": {"offsets": {"0": [0, 2]}}}
    assert redriven(api, dead, **named)["done"] == 1
    everything = api.ask("POST", f"/topics/{dead}/dlq/delete", {"filter": {}})
    assert (everything.status, everything.json["field"]) == (400, "filter")
    assert api.post(f"/topics/{dead}/dlq/delete", {"all": True})["deleted"] == 3
    assert values(api, dead) == []


def test_a_letter_is_corrected_before_it_is_redriven(api: HttpApi, dead: str) -> None:
    one = {"offsets": {"0": [1]}}
    edit = {"value": "fixed", "headers": [{"name": "by", "value": "hand"}]}
    assert redriven(api, dead, filter=one, edit=edit)["done"] == 1
    (message,) = api.get(f"/topics/{dead}/search")["messages"]
    assert (message["value"], message["partition"]) == ("fixed", 0)
    names = {each["name"]: each["value"] for each in message["headers"]}
    assert names == {"by": "hand", "goqueue-redriven": "1"}
    assert values(api, dead) == ["0", "2", "3", "4", "5"]


def test_a_letter_with_another_key_goes_where_that_key_goes(api: HttpApi, dead: str) -> None:
    (placed,) = api.publish(dead, "there", key="customer-7")
    for at, partition in (("0", 0), ("1", 1)):
        edit = {"key": "customer-7"}
        assert redriven(api, dead, filter={"offsets": {at: [0]}}, edit=edit)["done"] == 1, partition
    found = api.get(f"/topics/{dead}/search")["messages"]
    assert {(each["key"], each["partition"]) for each in found} == {
        ("customer-7", placed["partition"])
    }


@pytest.mark.parametrize("chosen", [{}, {"offsets": {"0": [0, 1]}}, {"reason": "REJECTED"}])
def test_an_edit_is_of_one_letter(api: HttpApi, dead: str, chosen: dict[str, Any]) -> None:
    body = {"filter": chosen, "edit": {"value": "x"}}
    refused = api.ask("POST", f"/topics/{dead}/dlq/redrive", body)
    assert (refused.status, refused.json["field"]) == (400, "filter.offsets")
    assert len(values(api, dead)) == 6
