"""The page of Kafka's APIs says what the handlers declare."""

from __future__ import annotations

from pathlib import Path

from kio.schema.index import api_key_map

from goqueue.protocols.kafka.api_reference import _NOTES, reference, served_specs
from goqueue.wire.kafka.api_keys import ApiKey

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "kafka-apis.md"


def test_the_page_of_kafkas_apis_is_current() -> None:
    hint = (
        "run: .venv/bin/python -m goqueue.protocols.kafka.api_reference "
        "> docs/reference/kafka-apis.md"
    )
    assert PAGE.read_text(encoding="utf-8") == reference(), hint


def test_every_api_that_is_not_served_has_a_reason() -> None:
    served = served_specs()
    missing = [key for key in api_key_map if key not in served and not _NOTES.get(key)]
    assert not missing
    assert ApiKey.API_VERSIONS in served
