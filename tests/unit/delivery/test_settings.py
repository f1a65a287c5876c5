"""The settings of queue groups: who decides on what nobody has set."""

from __future__ import annotations

import msgspec

from goqueue.queues.delivery.settings import NEW_SHARE_GROUP, QueueSettings


def test_the_first_member_decides_on_what_nobody_has_set():
    ahead = NEW_SHARE_GROUP.with_changes({"visibility_ms": 20_000, "start_at_latest": False})
    for first in (QueueSettings(), NEW_SHARE_GROUP):
        joined = ahead.joined_by(first)
        assert joined.was_joined
        assert (joined.visibility_ms, joined.start_at_latest) == (20_000, False)
        assert joined.max_deliveries == first.max_deliveries
        assert joined.reads_uncommitted == first.reads_uncommitted


def test_a_field_goes_back_to_the_default_of_whoever_was_first():
    by_http = QueueSettings(was_joined=True).with_changes({"max_deliveries": 9})
    assert by_http.without(["max_deliveries"]) == QueueSettings(was_joined=True)
    by_share = msgspec.structs.replace(NEW_SHARE_GROUP, was_joined=True)
    assert by_share.with_changes({"max_deliveries": 9}).without(["max_deliveries"]) == by_share


def test_settings_that_were_stored_without_saying_which_were_set_are_kept():
    stored = b'{"mode":"shared","start_at_latest":false,"max_deliveries":3,"isolation":"x"}'
    old = msgspec.json.decode(stored, type=QueueSettings)
    joined = old.joined_by(NEW_SHARE_GROUP)
    assert not joined.start_at_latest
    assert joined.max_deliveries == 5
    assert joined.configured == ("start_at_latest",)
