"""Who is suspected, and who may act on it."""

from __future__ import annotations

from goqueue.cluster.records import NodeState
from goqueue.cluster.suspicion import LOOP_LAG_MS, SILENCE_S, Ping, Suspicion
from support.cluster_views import ViewMaker


def watching(maker: ViewMaker, node_id: int = 1) -> Suspicion:
    suspicion = Suspicion(node_id, 0.0)
    suspicion.watch(maker.view, 0.0)
    return suspicion


def hear(
    suspicion: Suspicion,
    maker: ViewMaker,
    node_id: int,
    now_s: float,
    *suspects: int,
    lag_ms: int = 0,
) -> None:
    run = maker.view.nodes[node_id].incarnation
    ping = Ping(node_id, run, int(now_s * 1000) + 1, 0, lag_ms, frozenset(suspects))
    suspicion.heard(ping, now_s)


def pass_time(suspicion: Suspicion, from_s: float, to_s: float) -> None:
    """Tick as the thread does."""
    for tick in range(round(from_s * 10), round(to_s * 10) + 1):
        suspicion.tick(tick / 10)


def test_a_node_is_suspected_after_a_silence() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    pass_time(suspicion, 0.0, SILENCE_S)
    assert suspicion.suspects(SILENCE_S) == frozenset()
    hear(suspicion, maker, 2, 0.5)
    pass_time(suspicion, SILENCE_S, SILENCE_S + 0.1)
    assert suspicion.suspects(SILENCE_S + 0.1) == {3}


def test_a_refused_connection_is_suspicious_until_a_ping_is_heard() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    suspicion.refused(3)
    suspicion.refused(99)
    assert suspicion.suspects(0.0) == {3}
    hear(suspicion, maker, 3, 0.1)
    assert suspicion.suspects(0.1) == frozenset()


def test_an_event_loop_that_stands_still_is_suspicious() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    hear(suspicion, maker, 2, 0.1, lag_ms=LOOP_LAG_MS - 1)
    assert suspicion.suspects(0.1) == frozenset()
    hear(suspicion, maker, 2, 0.2, lag_ms=LOOP_LAG_MS)
    assert suspicion.suspects(0.2) == {2}


def test_a_node_that_was_paused_itself_suspects_nobody_for_it() -> None:
    suspicion = watching(ViewMaker(1, 2, 3))
    suspicion.tick(30.0)
    assert suspicion.suspects(30.1) == frozenset()


def test_old_pings_and_pings_of_an_earlier_run_say_nothing() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    old = Ping(2, maker.view.nodes[2].incarnation, 1, 0, 0)
    suspicion.heard(old, 0.1)
    suspicion.refused(2)
    suspicion.heard(old, 0.2)
    assert suspicion.suspects(0.2) == {2}, "the same ping twice"
    maker.node(2)
    suspicion.watch(maker.view, 0.3)
    suspicion.refused(2)
    suspicion.heard(old._replace(sequence=9), 0.3)
    assert suspicion.suspects(0.3) == {2}, "of an earlier run"


def test_a_node_that_registers_anew_is_given_time() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    suspicion.refused(2)
    maker.node(2)
    suspicion.watch(maker.view, 1.0)
    assert 2 not in suspicion.suspects(1.0)


def test_a_node_that_is_gone_is_forgotten() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    suspicion.refused(2)
    maker.gone(2)
    suspicion.watch(maker.view, 0.1)
    assert suspicion.suspects(0.1) == frozenset()


def test_a_suspect_is_agreed_on_when_another_live_node_suspects_it_too() -> None:
    maker = ViewMaker(1, 2, 3)
    suspicion = watching(maker)
    suspicion.refused(3)
    hear(suspicion, maker, 2, 0.1)
    assert suspicion.agreed(0.1) == frozenset()
    hear(suspicion, maker, 2, 0.2, 3)
    assert suspicion.agreed(0.2) == {3}


def test_a_suspect_is_agreed_on_when_no_other_node_is_left() -> None:
    suspicion = watching(ViewMaker(1, 2, 3))
    suspicion.refused(2)
    suspicion.refused(3)
    assert suspicion.agreed(0.0) == {2, 3}


def test_a_ping_tells_the_own_suspects() -> None:
    suspicion = watching(ViewMaker(1, 2, 3))
    suspicion.refused(3)
    first = suspicion.ping(0.0, incarnation=1, wall_ms=5, lag_ms=7)
    assert first == Ping(1, 1, 1, 5, 7, frozenset({3}))
    assert suspicion.ping(0.0, incarnation=1, wall_ms=5, lag_ms=7).sequence == 2


def test_the_first_live_node_takes_a_controller_that_nobody_has() -> None:
    maker = ViewMaker(1, 2, 3)
    assert watching(maker, 1).may_take(maker.view, 0.0)
    assert not watching(maker, 2).may_take(maker.view, 0.0)
    second = watching(maker, 2)
    second.refused(1)
    assert second.may_take(maker.view, 0.0)


def test_a_controller_is_replaced_when_most_live_nodes_do_not_hear_it() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.control(1)
    suspicion = watching(maker, 2)
    assert not suspicion.may_take(maker.view, 0.0)
    suspicion.refused(1)
    hear(suspicion, maker, 3, 0.1)
    assert not suspicion.may_take(maker.view, 0.1), "node 3 hears it"
    hear(suspicion, maker, 3, 0.2, 1)
    assert suspicion.may_take(maker.view, 0.2)


def test_a_controller_that_was_restarted_is_none() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.control(3)
    assert not watching(maker, 1).may_take(maker.view, 0.0)
    maker.node(3)
    assert watching(maker, 1).may_take(maker.view, 0.0)


def test_a_node_that_is_not_active_does_not_take_over() -> None:
    maker = ViewMaker(1, 2, 3)
    maker.node(1, NodeState.STARTING)
    assert not watching(maker, 1).may_take(maker.view, 0.0)
    assert watching(maker, 2).may_take(maker.view, 0.0)
