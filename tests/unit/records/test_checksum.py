"""CRC32C: the compiled codec and the package say the same."""

from __future__ import annotations

import os
import subprocess
import sys

import crc32c as package
import pytest
from hypothesis import given, strategies as st

from goqueue.records import checksum


@given(st.binary(max_size=40), st.integers(0, 5000), st.integers(0, 2**32 - 1))
def test_any_bytes_have_one_checksum(pattern: bytes, length: int, before: int) -> None:
    data = (pattern or b"\0") * (length // max(len(pattern), 1) + 1)
    assert checksum.crc32c(data) == package.crc32c(data)
    assert checksum.crc32c(data, before) == package.crc32c(data, before)
    at = length % (len(data) + 1)
    assert checksum.crc32c(memoryview(data)[at:], checksum.crc32c(data[:at])) == package.crc32c(
        data
    )


def test_the_checksum_of_large_data_is_the_same() -> None:
    data = os.urandom((3 << 20) + 7)
    assert checksum.crc32c(data) == package.crc32c(data)
    assert checksum.crc32c(b"123456789") == 0xE3069283  # the check value of the polynomial


@pytest.mark.parametrize("arguments", [(), (5,), ("text",), (b"", "0"), (b"", 0, 0, 0)])
def test_anything_but_bytes_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        checksum.crc32c(*arguments)  # type: ignore[arg-type]


def test_the_package_is_used_where_the_readable_codec_is_asked_for() -> None:
    code = "from goqueue.records.checksum import crc32c; print(crc32c.__module__)"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"GOQUEUE_CODEC": "reference"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "crc32c" in printed.stdout
