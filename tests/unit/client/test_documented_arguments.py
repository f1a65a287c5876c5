"""The page on delayed messages names arguments and fields that exist."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import goqueue
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "delay.md"


def named(interface: str) -> set[str]:
    """The names that the page's table gives for when a message is due over one interface."""
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    (how,) = (row[2] for row in rows if interface in map(str.strip, row[1].split(",")))
    return set(re.findall(r"\b(?:delay|deliver_?[aA]t)\w*", how))


@pytest.mark.parametrize("client", [goqueue.AsyncClient, goqueue.Client])
def test_the_delays_of_the_python_client_are_arguments_of_publish(
    client: type[goqueue.AsyncClient | goqueue.Client],
) -> None:
    assert named("Python client") == {"delay", "deliver_at"}
    assert named("Python client") <= set(inspect.signature(client.publish).parameters)


def test_the_delays_of_grpc_are_fields_of_a_message() -> None:
    assert named("gRPC") == {"delay_ms", "deliver_at_ms"}
    assert named("gRPC") <= set(pb.NewMessage.DESCRIPTOR.fields_by_name)
