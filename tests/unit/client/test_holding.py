"""How many messages a member has, against a twin that keeps each of them."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from goqueue.client.queues.deliveries import Deliveries
from goqueue.client.queues.holding import Holding

PREFETCH = 10


class Members(RuleBasedStateMachine):
    """The twin is a dictionary of messages, with when each of them is not the member's any more."""

    def __init__(self):
        super().__init__()
        self.holding = Holding(PREFETCH)
        self.now_s = 0.0
        self.had: list[Deliveries] = []
        self.twin: dict[tuple[int, int], float] = {}

    @precondition(lambda self: self.holding.room)
    @rule(data=st.data(), lasts_s=st.integers(1, 5))
    def take(self, data, lasts_s):
        count = data.draw(st.integers(1, self.holding.room))
        until_s = self.now_s + lasts_s
        new = Deliveries(
            None,
            UUID(int=1),
            0,
            first=0,
            count=1,
            lane=2,
            nonces=memoryview(bytes(8 * count)),
            until_s=until_s,
        )
        self.holding.took(new)
        self.had.append(new)
        for at in range(count):
            self.twin[len(self.had) - 1, at] = until_s

    def _of(self, number):
        return [place for place in self.twin if place[0] == number]

    @precondition(lambda self: self.had)
    @rule(data=st.data())
    def settle(self, data):
        """Also more than there are: what has expired may be settled nevertheless."""
        number = data.draw(st.integers(0, len(self.had) - 1))
        count = data.draw(st.integers(0, len(self.had[number].settled)))
        self.holding.gave(self.had[number], count)
        for place in self._of(number)[:count]:
            del self.twin[place]

    @precondition(lambda self: self.had)
    @rule(data=st.data(), lasts_s=st.integers(1, 5))
    def extend(self, data, lasts_s):
        number = data.draw(st.integers(0, len(self.had) - 1))
        self.had[number].until_s = self.now_s + lasts_s
        for place in self._of(number):
            self.twin[place] = self.now_s + lasts_s

    @rule(passes_s=st.integers(0, 3))
    def expire(self, passes_s):
        self.now_s += passes_s
        self.holding.expire(self.now_s)
        self.twin = {at: until_s for at, until_s in self.twin.items() if until_s > self.now_s}

    @invariant()
    def both_have_the_same_room(self):
        assert self.holding.room == PREFETCH - len(self.twin)
        for number, each in enumerate(self.had):
            assert each.left == len(self._of(number))

    @invariant()
    def more_is_asked_for_when_there_is_much_room_or_nothing_to_do(self):
        room = PREFETCH - len(self.twin)
        assert self.holding.is_roomy(buffered=1) == (room >= PREFETCH // 2)
        assert self.holding.is_roomy(buffered=0) == (room > 0)


TestHolding = Members.TestCase
