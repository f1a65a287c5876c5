from __future__ import annotations

from hypothesis import given, strategies as st

from goqueue.groups.timers import Timers

keys = st.sampled_from("abcde")
times = st.integers(0, 50)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, times),
        st.tuples(st.just("cancel"), keys, st.just(0)),
        st.tuples(st.just("due"), st.just(""), times),
    ),
    max_size=300,
)


@given(steps)
def test_timers_agree_with_a_plain_dictionary(actions: list[tuple[str, str, int]]) -> None:
    timers: Timers[str] = Timers()
    twin: dict[str, int] = {}
    for action, key, at_ms in actions:
        if action == "set":
            timers.set(key, at_ms)
            twin[key] = at_ms
        elif action == "cancel":
            timers.cancel(key)
            twin.pop(key, None)
        else:
            fired = timers.due(at_ms)
            expected = {each for each, when in twin.items() if when <= at_ms}
            assert set(fired) == expected
            assert [twin[each] for each in fired] == sorted(twin[each] for each in expected)
            for each in fired:
                del twin[each]
        assert timers.next_ms() == min(twin.values(), default=None)
        assert len(timers) == len(twin)


def test_deadlines_that_are_pushed_back_for_ever_do_not_fill_the_memory() -> None:
    timers: Timers[int] = Timers()
    for now in range(5_000):
        timers.set(now % 10, now + 100 - now % 7 * 10)
        timers.cancel((now + 5) % 10)
    assert len(timers._heap) <= 2 * len(timers._queued) + 65
