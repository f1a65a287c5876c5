"""Wrong logins wait: by name, by address, within bounds."""

from __future__ import annotations

from goqueue.access.login_throttle import LoginThrottle


def fail(throttle: LoginThrottle, times: int, host: str = "h", name: str = "n") -> None:
    for _ in range(times):
        throttle.failed(host, name, 0.0)


def test_a_few_mistakes_cost_nothing() -> None:
    throttle = LoginThrottle(2.0)
    fail(throttle, 5)
    assert throttle.delay_s("h", "n", 0.0) == 0.0


def test_each_further_mistake_doubles_the_delay_up_to_the_longest() -> None:
    throttle = LoginThrottle(2.0)
    delays = []
    for _ in range(12):
        fail(throttle, 1)
        delays.append(throttle.delay_s("h", "n", 0.0))
    assert delays[5:9] == [0.2, 0.4, 0.8, 1.6]
    assert delays[-1] == 2.0
    assert throttle.delay_s("another", "n", 0.0) == 2.0
    assert throttle.delay_s("h", "another", 0.0) == 0.0


def test_an_address_that_tries_many_names_waits_too_but_less() -> None:
    throttle = LoginThrottle(2.0)
    for number in range(70):
        throttle.failed("h", f"n{number}", 0.0)
    assert throttle.delay_s("h", "unheard-of", 0.0) == 0.25
    assert throttle.delay_s("h", "", 0.0) == 0.25
    assert throttle.delay_s("elsewhere", "unheard-of", 0.0) == 0.0


def test_mistakes_are_forgotten() -> None:
    throttle = LoginThrottle(2.0)
    fail(throttle, 20)
    assert throttle.delay_s("h", "n", 120.0) == 0.0


def test_memory_is_bounded_however_many_names_are_tried() -> None:
    throttle = LoginThrottle(2.0)
    for number in range(25_000):
        throttle.failed(f"h{number}", f"n{number}", float(number))
    assert len(throttle._names._counts) == len(throttle._hosts._counts) == 10_000


def test_no_delay_is_no_delay() -> None:
    throttle = LoginThrottle(0.0)
    fail(throttle, 100)
    assert throttle.delay_s("h", "n", 0.0) == 0.0
