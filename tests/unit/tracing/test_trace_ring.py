"""The ring and the index against dumb twins."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st

from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.tracing.context import TraceContext
from goqueue.tracing.events import Entry
from goqueue.tracing.index import Traced, TracedIndex
from goqueue.tracing.store import TraceStore, TracingSettings


@given(st.integers(1, 20), st.lists(st.lists(st.integers(0, 99), max_size=30), max_size=10))
def test_the_ring_is_the_end_of_a_list(capacity, portions):
    settings = TracingSettings(ring_spans=capacity, writes_files=False)
    store, twin = TraceStore(settings, SystemDisk(), Path("unused"), SystemClock(), "node"), []
    for portion in portions:
        entries = [Entry("publish.received", at, place="0" * 15 + "1", offset=0) for at in portion]
        store.add_all(entries[:-1])
        if entries:
            store.add(entries[-1])
        twin = [*twin, *entries][-capacity:]
        assert list(store.ring) == twin
        assert store.stats(0).spans == len(twin) <= capacity


CONTEXT = st.none() | st.just(TraceContext("1" * 32, "2" * 16))


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.integers(0, 60),
            st.integers(1, 9),
            st.dictionaries(st.integers(0, 8), CONTEXT, max_size=3),
        ),
        max_size=15,
    ),
    st.integers(0, 70),
    st.integers(0, 30),
)
def test_the_index_knows_what_is_traced_in_which_trace(added, first, length):
    index = TracedIndex()
    twin: dict[tuple[str, int], TraceContext | str | None] = {}
    for place, base, count, said in added:
        own = {base + at: context for at, context in said.items() if at < count}
        index.add(place, Traced(base, base + count, own))
        for offset in range(base, base + count):
            twin.setdefault((place, offset), own.get(offset, "derived"))
    for place in "ab":
        found = {}
        for context, start, end in index.within(place, first, first + length):
            assert start < end
            for offset in range(start, end):
                assert offset not in found
                found[offset] = "derived" if context is None else context
        expected = {
            offset: twin[place, offset]
            for offset in range(first, first + length)
            if twin.get((place, offset)) is not None
        }
        assert found == expected
        assert index.knows(place) == any(each == place for each, _ in twin)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=60))
def test_the_index_forgets_in_the_order_in_which_it_learnt(added):
    index, twin = TracedIndex(limit=7), list[tuple[str, int]]()
    for place, offset in added:
        index.add(place, Traced(offset, offset + 1, {}))
        if (place, offset) not in twin:
            twin = [*twin, (place, offset)][-7:]
        found = [(each, at) for each in "ab" for _, at, _ in index.within(each, 0, 31)]
        assert found == sorted(twin)
        assert len(index) == len(twin)


def test_of_too_many_traced_batches_the_oldest_is_forgotten():
    index = TracedIndex(limit=10)
    for at in range(20):
        index.add("a", Traced(at, at + 1, {at: TraceContext("1" * 32, "2" * 16)}))
    assert len(index) == 5
    assert [first for _, first, _ in index.within("a", 0, 100)] == [15, 16, 17, 18, 19]
