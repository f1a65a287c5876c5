"""The page of a cluster, from one of its nodes, while another one dies."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from goqueue.testing import Cluster
from support.console_axe import NARROW, Judge
from support.http_api import HttpApi
from support.pictures import CLUSTER, WIDE, take_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as found:
        yield found


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> SimpleNamespace:
    """The node that the console is opened at."""
    return SimpleNamespace(http_url=cluster.http_url(2))


def test_a_node_that_dies_is_seen_on_the_page_of_another(
    open_page: Callable[..., Page], cluster: Cluster
) -> None:
    page = open_page("/cluster")
    nodes = page.get_by_role("region", name="Nodes")
    expect(nodes.get_by_role("row")).to_have_count(4)
    expect(nodes.get_by_text("controller")).to_have_count(1)
    expect(nodes.get_by_text("active")).to_have_count(3)
    expect(page.get_by_text("3 of 3")).to_be_visible()
    cluster.kill(3)
    expect(nodes.get_by_text(re.compile("away|fenced"))).to_have_count(1)
    expect(page.get_by_text("2 of 3")).to_be_visible()
    partitions = page.get_by_role("region", name="Partitions", exact=True)
    expect(partitions.get_by_text("without 3").first).to_be_visible()
    cluster.start(3)
    expect(nodes.get_by_text("active")).to_have_count(3)
    expect(partitions.get_by_text("without 3")).to_have_count(0)


@pytest.mark.parametrize("viewport", [None, NARROW], ids=["wide", "narrow"])
def test_the_page_of_three_nodes_shuts_nobody_out(
    open_page: Callable[..., Page], axe: str, viewport: dict[str, int] | None
) -> None:
    options = {} if viewport is None else {"viewport": viewport}
    page = open_page("/cluster", color_scheme="light", reduced_motion="reduce", **options)
    expect(page.get_by_role("region", name="Nodes").get_by_text("active")).to_have_count(3)
    judged = Judge(page, axe)
    judged.look("/cluster")
    judged.look_in_the_dark("/cluster")
    judged.finish()


@pytest.mark.slow
def test_the_picture_of_the_cluster_shows_a_node_that_died(
    open_page: Callable[..., Page], cluster: Cluster, tmp_path: Path
) -> None:
    api = HttpApi(urlsplit(cluster.http_url(2)).port)
    for name in ("orders", "payments", "shipments"):
        api.post("/topics", {"name": name, "num_partitions": 3})
    api.close()
    page = open_page("/cluster?filter=s-", viewport=WIDE, color_scheme="light")
    cluster.kill(3)
    expect(page.get_by_text("2 of 3").first).to_be_visible()
    expect(page.get_by_text("without 3").first).to_be_visible()
    take_picture(page, CLUSTER, tmp_path)
    cluster.start(3)
