"""Lines of the server's log, whatever clients call themselves."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.server.config_node import LogFormat, LoggingSection
from goqueue.server.logs import set_up_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = "x\n2026-01-01 00:00:00,000 INFO    goqueue: all is well\r\x1b[2J\x9b31m\u2028end"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, level = logging.getLogger(), logging.getLogger("goqueue").level
    handlers, root_level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(root_level)
    logging.getLogger("goqueue").setLevel(level)


def _line(log_format: LogFormat, message: str, error: BaseException | None = None) -> str:
    set_up_logging(LoggingSection(format=log_format))
    (handler,) = logging.getLogger().handlers
    caught = None if error is None else (type(error), error, None)
    record = logging.LogRecord("goqueue.x", logging.INFO, "", 1, "client %s", (message,), caught)
    return handler.format(record)


@given(st.text())
def test_a_name_never_breaks_out_of_its_line(name: str) -> None:
    for log_format in LogFormat:
        line = _line(log_format, name)
        assert len(line.splitlines()) == 1
        assert not any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in line)


def test_what_was_escaped_can_still_be_read() -> None:
    assert r"client x\n2026-01-01" in _line(LogFormat.TEXT, FORGED)
    assert json.loads(_line(LogFormat.JSON, FORGED))["message"] == f"client {FORGED}"


def test_an_error_with_a_forged_line_in_its_text_forges_none() -> None:
    first, *others = _line(LogFormat.TEXT, "x", ValueError(FORGED)).split("\n")
    assert first.endswith("client x")
    assert others
    assert all(each.startswith("    ") for each in others)
    assert not any(each in "\r\x1b\x9b\u2028" for each in "".join(others))
