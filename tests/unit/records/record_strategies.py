"""What the tests of records draw from: any record a producer could send, and a bit more."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from goqueue.model.errors import BatchError
from goqueue.records import Compression, Record
from goqueue.records.choice import load

REFERENCE = load("reference")
NATIVE = load("native")
CODECS = [REFERENCE, NATIVE]

names = st.text(max_size=8) | st.binary(max_size=8).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)
payloads = st.none() | st.binary(max_size=8) | st.binary(min_size=60, max_size=70)
headers = st.lists(st.tuples(names, payloads), max_size=3).map(tuple)
timestamps = (
    st.integers(-100, 100) | st.integers(0, 2**42) | st.sampled_from([-1, 0, 2**61, -(2**61)])
)
gaps = st.just(1) | st.integers(1, 100) | st.sampled_from([2**13, 2**20])
compressions = st.sampled_from(Compression)


@st.composite
def record_lists(draw: Any, *, min_size: int = 0, dense: bool = False) -> list[Record]:
    """Records of one batch; `dense` ones start at 0 and have no gaps, as producers send them."""
    offset = -1 if dense else draw(st.integers(-1, 2**40))
    records = []
    for _ in range(draw(st.integers(min_size, 6))):
        offset += 1 if dense else draw(gaps)
        fields = draw(st.tuples(timestamps, payloads, payloads, headers))
        records.append(Record(offset, *fields))
    return records


def outcome(action: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call returns, or the class of the error that it raises."""
    try:
        return action(*args, **kwargs)
    except BatchError as error:
        return type(error)
