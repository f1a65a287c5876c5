"""Batches that librdkafka and the Java client wrote, as they came over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from goqueue.records import Compression, Record, peek, validate
from unit.records.record_strategies import CODECS

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)

RECORDS: Final = [
    Record(
        0, 1_700_000_000_000, b"key", b"value " * 20, (("n\u00e4me", b"header"), ("none", None))
    ),
    Record(1, 1_699_999_999_000, None, b""),
    Record(2, 1_700_000_000_002, b"", None),
]


class Capture(NamedTuple):
    client: str
    version: str
    kind: str
    batch: str


def captures() -> list[Capture]:
    lines = Path(__file__).with_name("captured_batches.txt").read_text().splitlines()
    return [Capture(*line.split()) for line in lines if not line.startswith("#")]


DATA: Final = [capture for capture in captures() if capture.kind != "marker"]
MARKERS: Final = [capture for capture in captures() if capture.kind == "marker"]


@each_codec
@pytest.mark.parametrize("capture", DATA, ids=lambda capture: f"{capture.client}-{capture.kind}")
def test_a_captured_batch_decodes_to_what_its_client_was_given(
    codec: Codec, capture: Capture
) -> None:
    batch = bytes.fromhex(capture.batch)
    info = peek(batch)
    validate(batch, 0, info)
    assert info.compression == Compression[capture.kind.upper()]
    assert info.has_producer
    assert codec.decode_rows(batch) == RECORDS
    codec.check_records(batch)
    assert codec.decode_columns(batch).count == len(RECORDS)


@each_codec
@pytest.mark.parametrize("capture", MARKERS, ids=lambda capture: capture.client)
def test_a_captured_transaction_marker_is_the_one_we_would_write(
    codec: Codec, capture: Capture
) -> None:
    batch = bytes.fromhex(capture.batch)
    info = peek(batch)
    assert info.is_control
    assert info.is_transactional
    rewritten = codec.encode(
        codec.decode_rows(batch),
        attributes=info.attributes,
        leader_epoch=info.leader_epoch,
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
    )
    assert rewritten == batch


@each_codec
def test_an_uncompressed_capture_encodes_to_the_same_bytes(codec: Codec) -> None:
    plain = [capture for capture in DATA if capture.kind == "none"]
    assert {capture.client for capture in plain} == {"java", "librdkafka"}
    for capture in plain:
        batch = bytes.fromhex(capture.batch)
        info = peek(batch)
        rewritten = codec.encode(
            RECORDS,
            leader_epoch=info.leader_epoch,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
        )
        assert rewritten == batch
