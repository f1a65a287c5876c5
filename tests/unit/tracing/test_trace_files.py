"""Trace files: written, rotated, removed, and read whatever is in them."""

from __future__ import annotations

import errno
import logging

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from goqueue.model.errors import DiskFullError
from goqueue.runtime.disk import SystemDisk
from goqueue.tracing.events import Entry, Event
from goqueue.tracing.files import FileLimits, FileRanges, Partition, Search, TraceFiles, where_of
from support.disks import FaultyDisk
from support.effort import examples

DAY_MS = 24 * 3600 * 1000
NOW_MS = 20_000 * DAY_MS


def entry(at):
    return Entry(Event.PERSISTED, at, "orders", 1, at, 3, "a" * 16, attributes={"x": "\u00e9\n"})


def test_entries_are_read_back_across_files_and_restarts(tmp_path):
    limits = FileLimits(file_bytes=400)
    written = []
    for restart in range(3):
        files = TraceFiles(SystemDisk(), tmp_path / "traces", limits)
        for at in range(10):
            files.write([entry(100 * restart + at)], NOW_MS)
            written.append(entry(100 * restart + at))
        files.close()
    files = TraceFiles(SystemDisk(), tmp_path / "traces", limits)
    assert len(files.names()) > 3
    assert files.names()[0] == "traces-2024-10-04-000001.json"
    assert files.newest(7) == written[-7:]
    assert files.newest(1000) == written
    assert files.newest(0) == []


def test_entries_are_found_by_what_they_are_about(tmp_path):
    files = TraceFiles(SystemDisk(), tmp_path, FileLimits(file_bytes=400))
    for at in range(10):
        others = Entry(Event.PERSISTED, at, "others", 1, at, 3, "b" * 16)
        files.write([entry(at), others], NOW_MS)
    files.close()
    with (tmp_path / files.names()[0]).open("ab") as file:
        file.write(b'{"broken": "orders"\n')

    def found(*search):
        return [each for portion in files.find(Search(*search)) for each in portion]

    assert found(b'"orders"', lambda where: where.holds(5)) == [entry(at) for at in (3, 4, 5)]
    assert found(b"a" * 16, lambda where: where.offset == 7) == [entry(7)]
    assert found(b'"nobody"', lambda where: True) == []
    place = Partition("orders", 1)
    assert found(b'"orders"', lambda where: where.holds(5), place, 5) == [
        entry(at) for at in (3, 4, 5)
    ]
    assert files.damaged_lines == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(1, 5))), st.data())
def test_ranges_of_a_file_leave_out_no_message_that_it_holds(written, data):
    lines = [
        msgspec.json.encode(Entry(Event.PERSISTED, 1, "t", number, offset, count, f"{number:016x}"))
        for number, offset, count in written
    ]
    whole = b"".join(line + b"\n" for line in lines)
    ranges = FileRanges()
    for end in sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4))):
        ranges.read(whole[:end])
    ranges.read(whole)
    for number, offset, count in written:
        for at in (offset, offset + count - 1):
            assert ranges.may_hold(Partition("t", number), at)
            assert ranges.may_hold(f"{number:016x}", at)
    assert not ranges.may_hold(Partition("t", 9), 5)
    assert not ranges.may_hold(Partition("t", 0), 200)


def test_a_search_decodes_only_files_whose_range_holds_the_message(tmp_path, monkeypatch):
    files = TraceFiles(SystemDisk(), tmp_path, FileLimits(file_bytes=2000, kept_files=100))
    for at in range(0, 3000, 3):
        files.write([entry(at)], NOW_MS)
    files.close()
    search = Search(b'"orders"', lambda where: where.holds(1500), Partition("orders", 1), 1500)
    assert [*files.find(search)] == [[entry(1500)]]
    decoded = []
    monkeypatch.setattr(
        "goqueue.tracing.files.where_of", lambda line: decoded.append(line) or where_of(line)
    )
    assert [*files.find(search)] == [[entry(1500)]]
    assert 0 < len(decoded) < 30


def test_another_day_begins_another_file_and_old_ones_go(tmp_path):
    files = TraceFiles(SystemDisk(), tmp_path, FileLimits(kept_files=3, kept_days=2))
    for day in range(4):
        files.write([entry(day)], NOW_MS + day * DAY_MS)
    assert files.names() == [f"traces-2024-10-0{day}-000001.json" for day in (5, 6, 7)]
    files.write([entry(9)], NOW_MS + 30 * DAY_MS)
    assert files.names() == ["traces-2024-11-03-000001.json"]
    files.close()


def test_a_restart_goes_on_in_the_same_file_behind_what_was_torn(tmp_path):
    for restart in range(5):
        files = TraceFiles(SystemDisk(), tmp_path, FileLimits(kept_files=2))
        files.write([entry(restart)], NOW_MS)
        files.close()
        (name,) = files.names()
        with (tmp_path / name).open("ab") as file:
            file.write(b'{"event":"publ')
    files = TraceFiles(SystemDisk(), tmp_path)
    assert files.newest(100) == [entry(restart) for restart in range(5)]
    assert files.damaged_lines == 5


def test_a_disk_that_refuses_costs_the_new_entries_and_no_old_file(tmp_path):
    disk = FaultyDisk(tmp_path)
    files = TraceFiles(disk, tmp_path / "traces", FileLimits(file_bytes=100, kept_files=4))
    for at in range(3):
        files.write([entry(at)], NOW_MS)
    names = files.names()
    for at in range(10):
        disk.fail_next("write", errno.ENOSPC, short=20)
        with pytest.raises(DiskFullError):
            files.write([entry(100 + at)], NOW_MS)
    assert files.names()[:-1] == names
    files.write([entry(3)], NOW_MS)
    files.close()
    assert [each.at_ns for each in files.newest(100)] == [0, 1, 2, 3]
    assert files.damaged_lines == 0


def test_a_name_that_cannot_be_written_to_is_passed_over(tmp_path):
    (tmp_path / "traces-2024-10-04-000001.json").mkdir()
    files = TraceFiles(SystemDisk(), tmp_path)
    files.write([entry(1)], NOW_MS)
    files.close()
    assert files.names()[-1] == "traces-2024-10-04-000002.json"
    assert files.newest(10) == [entry(1)]


def test_a_clock_that_is_set_back_does_not_cost_the_file_that_is_written_to(tmp_path):
    files = TraceFiles(SystemDisk(), tmp_path, FileLimits(file_bytes=1, kept_files=3))
    for at in range(5):
        files.write([entry(at)], NOW_MS + DAY_MS)
    files.write([entry(9)], NOW_MS)
    files.close()
    assert len(files.names()) == 3
    assert files.newest(10)[0] == entry(9)


@settings(max_examples=examples(50))
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 60))
def test_what_is_no_entry_is_reported_and_passed_over(tmp_path_factory, garbage, torn):
    folder = tmp_path_factory.mktemp("traces")
    files = TraceFiles(SystemDisk(), folder)
    good = [entry(at) for at in range(len(garbage) + 1)]
    files.write(good, NOW_MS)
    files.close()
    path = folder / files.names()[0]
    lines = path.read_bytes().splitlines(keepends=True)
    mixed = [
        each
        for pair in zip(lines, [*garbage, b""], strict=True)
        for each in (pair[0], pair[1] + b"\n")
    ]
    path.write_bytes(b"".join(mixed) + lines[0][: -1 - torn])
    found = TraceFiles(SystemDisk(), folder).newest(1000)
    assert [each for each in found if each.topic == "orders"][: len(good)] == good or torn == 0
    assert all(each.is_sound for each in found)


def test_a_broken_file_is_reported_once(tmp_path, caplog):
    (tmp_path / "traces-2024-10-04-000001.json").write_bytes(
        b'\x00\x01\n{"event": 3}\n{"event":"publish.received","at_ns":1,"count":0}\n'
        b'{"event":"x","at_ns":1,"trace":"nothex","offset":1}\n'
        b'{"event":"x","at_ns":1,"place":"aaaaaaaaaaaaaaaa","offset":-5}\n'
        b'{"event":"x","at_ns":1,"place":"aaaaaaaaaaaaaaaa","offset":1,"count":99999999999}\n'
        b'{"event":"x","at_ns":1,"trace":"%b","parent":"not hex","offset":1}\n' % (b"a" * 32)
    )
    (tmp_path / "traces-2024-10-05-000001.json").mkdir()
    (tmp_path / "notes.txt").write_text("not ours")
    files = TraceFiles(SystemDisk(), tmp_path)
    with caplog.at_level(logging.WARNING):
        assert files.newest(10) == []
        assert files.newest(10) == []
    assert files.damaged_lines == 7
    assert (
        sum("skipped 7 lines that are not trace events" in each.message for each in caplog.records)
        == 1
    )
