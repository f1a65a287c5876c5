"""Which partition a key belongs to."""

import pytest

from goqueue.model.partitioning import murmur2


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_java_clients(key, expected):
    """The values are those that Kafka's own tests hold its hash against."""
    assert murmur2(key) == expected & 0x7FFFFFFF
