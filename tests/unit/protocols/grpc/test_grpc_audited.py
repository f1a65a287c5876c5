"""Every call that changes something is in the audit log, or is what clients do with messages."""

from __future__ import annotations

from goqueue.protocols.grpc.audited import AUDITED
from goqueue.protocols.grpc.peers import readable
from goqueue.protocols.grpc.rights import RIGHTS

READS = ("List", "Describe", "Fetch", "Check", "Watch")
OF_CLIENTS = ("PublishService", "ConsumeService", "AckService", "TransactionService")
COMMITS = "/goqueue.v1.OffsetService/CommitOffsets"


def test_calls_that_change_something_are_audited() -> None:
    assert AUDITED.keys() <= RIGHTS.keys()
    unheard = {
        name
        for name in RIGHTS.keys() - AUDITED.keys() - {COMMITS}
        if not name.rpartition("/")[2].startswith(READS)
        and not any(f".{service}/" in name for service in OF_CLIENTS)
    }
    assert unheard == set()


def test_a_subject_reads_as_on_the_other_listeners() -> None:
    assert readable(r"CN=M\C3\BCller\, friend,O=A") == r"CN=Müller\, friend,O=A"
    assert readable(r"CN=\FF\, x") == r"CN=\FF\, x"
