"""What each member of a KIP-848 group shall have: subscriptions resolved, then assigned."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goqueue.groups.assignors import DEFAULT_ASSIGNOR, SERVER_ASSIGNORS, MemberSpec
from goqueue.groups.topics import TopicCatalogue, TopicsSeen
from goqueue.model.patterns import whole_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.model.topic_partition import TopicIdPartition


class Subscriptions:
    """Resolves names and patterns against the newest catalogue."""

    def __init__(self, max_regex_chars: int) -> None:
        self.catalogue = TopicCatalogue(version=-1)
        self._max_regex_chars = max_regex_chars
        self._patterns: dict[str, Callable[[str], bool]] = {}
        self._matches: dict[str, frozenset[str]] = {}
        self._tested: dict[str, dict[str, bool]] = {}
        """What each pattern says of names, so that a new topic costs one test a pattern. Of
        patterns that members use and topics that exist."""

    def use(self, catalogue: TopicCatalogue) -> bool:
        """Take over a catalogue; whether it is another one than before."""
        if catalogue.version == self.catalogue.version:
            return False
        self.catalogue = catalogue
        self._matches.clear()
        return True

    def check(self, pattern: str) -> None:
        """Compile a pattern, or raise `InvalidRegularExpressionError`."""
        if pattern and pattern not in self._patterns:
            self._patterns[pattern] = whole_match(pattern, max_chars=self._max_regex_chars)

    def keep_patterns(self, used: Iterable[str]) -> None:
        """Forget the patterns that no member uses."""
        wanted = set(used)
        self._patterns = {each: test for each, test in self._patterns.items() if each in wanted}
        self._matches = {each: names for each, names in self._matches.items() if each in wanted}
        self._tested = {each: known for each, known in self._tested.items() if each in wanted}

    def names(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member reads and that exist."""
        known = self.catalogue.topics
        named = frozenset(name for name in member.subscribed_names if name in known)
        return named | self._matching(member.subscribed_regex)

    def _matching(self, pattern: str) -> frozenset[str]:
        """The topics that a pattern stands for; never internal ones, which must be named."""
        if not pattern:
            return frozenset()
        if pattern not in self._matches:
            self.check(pattern)
            test, known = self._patterns[pattern], self._tested.get(pattern, {})
            self._tested[pattern] = tested = {
                name: known[name] if name in known else test(name)
                for name, info in self.catalogue.topics.items()
                if not info.is_internal
            }
            self._matches[pattern] = frozenset(name for name, fits in tested.items() if fits)
        return self._matches[pattern]

    def seen(self, members: Iterable[ConsumerMember]) -> TopicsSeen:
        """Everything about topics that the target of these members depends on."""
        return self.catalogue.seen(frozenset().union(*(self.names(member) for member in members)))


def preferred_assignor(members: Iterable[ConsumerMember]) -> str:
    """The assignor that most members ask for; the default when nobody asks."""
    votes = Counter(m.server_assignor for m in members if m.server_assignor is not None)
    return max(sorted(votes), key=votes.__getitem__, default=DEFAULT_ASSIGNOR)


def compute_target(
    members: Mapping[str, ConsumerMember], subscriptions: Subscriptions, assignor: str
) -> dict[str, frozenset[TopicIdPartition]]:
    """A whole new target that keeps to the old one where the assignor can."""
    topics = subscriptions.catalogue.topics
    specs: dict[str, MemberSpec[UUID]] = {}
    counts: dict[UUID, int] = {}
    for member_id, member in members.items():
        infos = [topics[name] for name in subscriptions.names(member)]
        counts.update((info.topic_id, info.partition_count) for info in infos)
        specs[member_id] = MemberSpec(frozenset(info.topic_id for info in infos), member.target)
    return SERVER_ASSIGNORS[assignor](specs, counts)
