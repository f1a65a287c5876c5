"""The reference page of errors: what each protocol answers, what it means, what to do.

`python -m goqueue.server.references.errors > docs/reference/errors.md`; a test holds it to that.
It is made from the tree of errors and the table of each protocol.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError
from goqueue.protocols.grpc.errors import GRPC_CODES
from goqueue.protocols.http.api.problems import PROBLEMS
from goqueue.protocols.kafka.errors import KAFKA_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INTRODUCTION: Final = """\
# Errors

What each error means and what to do. Made from the tree of errors and the table of each protocol.

An HTTP client gets a problem document ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)):

```json
{
  "title": "Not Found",
  "status": 404,
  "detail": "topic 'orders' does not exist: create it, or correct the name",
  "code": "unknown_topic",
  "retriable": true
}
```

- `code` is stable: programs may rely on it. `detail` is for people and may change.
- `retriable` says whether the same request can succeed later without a change. In the table
  below these errors are marked *yes*.
- A Kafka client gets Kafka's code for the same error; it retries retriable ones by itself. gRPC
  clients get a status, and the details carry the same flag.
- The Python client raises a class of its own for each kind:
  see [the Python client](python-client.md).
- What an operator does about errors that many clients get: [Runbooks](../how-to/runbooks.md) and
  [Troubleshooting](../how-to/troubleshooting.md).
"""

_RETRY: Final = "Send the same request again after a pause, or after `Retry-After` seconds."
_BY_STATUS: Final[Mapping[int, str]] = {
    400: "Correct the request; `field` names the part at fault.",
    401: "Log in, or send a key: see [Security](../how-to/security.md).",
    403: "Ask an administrator for the right: see [Rights](rights.md).",
    404: "Correct the name, or create what is missing.",
    405: "Use one of the methods of the `Allow` header.",
    413: "Send less at once, or raise the limit in the [configuration](configuration.md).",
    415: "Send `Content-Type: application/json`, or what the text names.",
    422: "Correct the value.",
    431: "Send fewer or shorter headers.",
    500: "Look at the server's log with the request id, and report it.",
    504: "Raise the timeout, or ask for less.",
}
_BY_CODE: Final[Mapping[str, str]] = {
    "access_disabled": "Set `auth.enabled`: see [Security](../how-to/security.md).",
    "backup_damaged": "Restore another backup; `goqueue backup verify` names what is damaged.",
    "cluster_mismatch": "Correct `cluster.peers`, the secret or the folder that the text names.",
    "compatibility_not_configured": (
        "Nothing: the global level applies. Set a level of the subject, or ask with"
        " `?defaultToGlobal=true`."
    ),
    "compacted_topic": "Publish tombstones, or add `delete` to `cleanup.policy` of the topic.",
    "csrf_token_required": "Send `X-CSRF-Token` from `GET /session`, or reload the page.",
    "delay_disabled": "Set `goqueue.delay.enable` of the topic, or publish without a delay.",
    "delayed_not_pending": "Nothing: the message was delivered or cancelled before.",
    "election_not_needed": "Nothing: the leader is the one that was asked for.",
    "expired_receipt": (
        "Process the redelivered message; make `visibility_timeout` longer than the work takes."
    ),
    "fenced_coordinator": "Nothing: the new coordinator ends the transaction.",
    "fenced_generation": "Join again; clients do so by themselves.",
    "fenced_producer": (
        "Stop the older of the two programs with this transactional id, or give each its own."
    ),
    "foreign_host": "Call the server by a name of `http.allowed_hosts`.",
    "foreign_origin": "Add the site to `http.allowed_origins`.",
    "foreign_receipt": "Acknowledge with the group to which the message was delivered.",
    "group_full": "Use fewer members, or raise the limit in the [configuration](configuration.md).",
    "group_mode": "Join with the `assignment` of the group, or use another group name.",
    "group_quota_exceeded": (
        "Delete unused groups, or ask for a higher [quota](../how-to/quotas.md)."
    ),
    "group_subscribed": "Stop the members that read the topic first.",
    "incompatible_schema": (
        "Change the schema, or the level: see [Compatibility](../how-to/schemas.md#compatibility)."
    ),
    "inconsistent_group_protocol": "Use another group name, or the group's protocol.",
    "internal_topic": "Use another topic; the broker alone writes this one.",
    "invalid_transaction_state": "Begin a new transaction; look at `goqueue transaction describe`.",
    "metadata_compacted": "Nothing: the node reads the metadata again.",
    "no_such_path": "Correct the path: see [HTTP](http.md).",
    "not_in_cluster": "Use a single node for this.",
    "offset_gap": "Nothing: the follower fetches again.",
    "offset_out_of_range": "Read from the start or the end of the log (`auto.offset.reset`).",
    "out_of_order_sequence": "Start the producer again; two programs may use its id.",
    "partition_not_assigned": "Commit only partitions that are assigned to the member.",
    "preferred_leader_unavailable": (
        "Wait until the replica is in sync: `goqueue cluster partitions`."
    ),
    "quota_exceeded": (
        "Delete what is not needed, or ask for a higher [quota](../how-to/quotas.md)."
    ),
    "restore_conflict": (
        "Use `--rename` or `--skip-existing`, or delete what exists:"
        " see [Restore](../how-to/backup.md#restore)."
    ),
    "schema_mode_not_configured": (
        "Nothing: the global mode applies. Set a mode of the subject, or ask with"
        " `?defaultToGlobal=true`."
    ),
    "schema_operation_not_permitted": "Set the mode of the subject to `READWRITE`.",
    "schema_referenced": "Delete the schemas that refer to it first.",
    "schema_version_not_soft_deleted": (
        "Delete the version first; then delete it again with `?permanent=true`."
    ),
    "schema_version_soft_deleted": (
        "Register the schema again, or delete the version for good with `?permanent=true`."
    ),
    "session_lapsed": "Nothing: the node registers again.",
    "share_session": "Open a new share session (epoch 0); clients do so by themselves.",
    "share_session_not_found": "Open a new share session; clients do so by themselves.",
    "stale_generation": "Join again; clients do so by themselves.",
    "stale_node": "Nothing: the node registers again.",
    "storage_quota_exceeded": (
        "Delete messages or shorten retention, or ask for a higher [quota](../how-to/quotas.md)."
    ),
    "subject_not_soft_deleted": (
        "Delete the subject first; then delete it again with `?permanent=true`."
    ),
    "subject_soft_deleted": (
        "Register a schema again, or delete the subject for good with `?permanent=true`."
    ),
    "tenancy_disabled": "Set `tenancy.enabled`: see [Tenants](../how-to/tenants.md).",
    "tenant_exists": "Use another id, or change the tenant that exists.",
    "tenant_not_empty": "Delete what the tenant has, or use `--force`.",
    "tenant_protected": "Choose another tenant, or wait until it is deleted.",
    "tenant_share_exceeded": (
        "End some of the tenant's polls or streams, or try again after `Retry-After` seconds:"
        " see [Tenants](../how-to/tenants.md#what-tenants-share)."
    ),
    "too_many_credentials": "Delete users, keys, rules or roles that are not used.",
    "too_many_groups": "Delete groups that are not used: `goqueue group list`.",
    "too_many_pipelines": "Remove pipelines that have ended: `goqueue pipeline list`.",
    "too_many_transactional_ids": (
        "Use fewer transactional ids; unused ones expire after `transactions.id_expiration`."
    ),
    "too_many_webhooks": "Delete webhooks that are not used: `goqueue webhook list`.",
    "topic_exists": "Use the topic as it is, or another name.",
    "transaction_open": "Commit or abort the open transaction first.",
    "unavailable": "Enable the feature that the text names, and start the server again.",
    "unknown_acl": "Correct the id: `goqueue acl list`.",
    "unknown_backup": "Correct the id: `goqueue backup list`.",
    "unknown_credential": "Correct the name, or create the user: `goqueue user list`.",
    "unknown_delayed": "Nothing: it was delivered or cancelled before, or the id is wrong.",
    "unknown_group": "Correct the name: `goqueue group list`; a group is made by its first member.",
    "unknown_key": "Correct the id: `goqueue key list`.",
    "unknown_partition": (
        "Correct the number, or give the topic more partitions: `goqueue topic describe`."
    ),
    "unknown_pipeline": "Correct the name: `goqueue pipeline list`.",
    "unknown_producer": "Initialise the producer again; clients do so by themselves.",
    "unknown_receipt": (
        "Nothing: the receipt was used, or has expired and the message is redelivered."
    ),
    "unknown_redrive": "Nothing: the redrive has ended and was removed, or the id is wrong.",
    "unknown_role": "Correct the name, or create the role: `goqueue role list`.",
    "unknown_schema": (
        "Correct the id, or register the schema: see [Schemas](../how-to/schemas.md)."
    ),
    "unknown_schema_version": "Correct the version: `goqueue schema versions`.",
    "unknown_subject": "Correct the name, or register a schema: `goqueue schema list`.",
    "unknown_tenant": "Correct the id, or create the tenant: `goqueue tenant list`.",
    "unknown_topic": "Create the topic, or correct the name: `goqueue topic list`.",
    "unknown_topic_id": "Ask for the metadata again; clients do so by themselves.",
    "unknown_trace": "Nothing: the trace was removed, was not sampled, or the id is wrong.",
    "unknown_transactional_id": "Correct the id: `goqueue transaction list`.",
    "unknown_webhook": "Correct the id: `goqueue webhook list`.",
    "unreleased_instance": (
        "Stop the other process with this `group.instance.id`, or wait for its session timeout."
    ),
    "webhooks_disabled": "Set `webhooks.enabled`: see [Webhooks](../how-to/webhooks.md).",
}
"""Where the status alone does not say what to do."""
_ADVICE: Final[Mapping[type[GoQueueError], str]] = {
    model.ChecksumMismatchError: (
        "The bytes were damaged on the way: send the batch again; look at the network or the "
        "client."
    ),
    model.BatchTooLargeError: "Send smaller batches, or raise `max.message.bytes` of the topic.",
    model.InvalidTimestampError: (
        "Correct the clock of the producer, or the timestamp settings of the topic."
    ),
    model.UnknownCompressionError: "Use gzip, snappy, lz4 or zstd.",
    model.DiskFullError: "Free disk space or shorten retention; nothing was stored.",
    model.DiskPermissionError: "Give the server's user the right to its data folder.",
    model.LogFailedError: "Wait: the log recovers by itself. If it stays, look at the disk.",
    model.DamagedRangeError: (
        "Continue at the offset that the text names; in a cluster the records are fetched from"
        " another replica."
    ),
    model.UnsupportedFormatError: (
        "Start a version of GoQueue that is at least as new as the one that wrote the folder."
    ),
    model.UnknownMemberError: "Join again.",
    model.IllegalGenerationError: "Join again; clients do so by themselves.",
    model.RebalanceInProgressError: "Join again; clients do so by themselves.",
    model.FencedInstanceError: "Two processes use one `group.instance.id`: give each its own.",
    model.NonEmptyGroupError: "Stop the members of the group first.",
    model.NotEnoughReplicasError: (
        "Start the missing nodes: `goqueue cluster health`. Nothing was stored."
    ),
    model.NotEnoughReplicasAfterAppendError: (
        "The message is stored and not yet safe: send it again; idempotent producers store it once."
    ),
    model.NotLeaderError: "Ask for the metadata again; clients do so by themselves.",
    model.DelayTooLongError: (
        "Shorten the delay, or raise the limit in the [configuration](configuration.md)."
    ),
}
_PROTOCOLS: Final = ("http", "kafka", "grpc")
"""Errors that are declared in a protocol's package are not known to the others."""
_T = TypeVar("_T")


def reference() -> str:
    """The page."""
    lines = [
        _INTRODUCTION,
        "| HTTP | code | Kafka | gRPC | retriable | meaning | what to do |",
        "| ---: | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(kind) for kind in _kinds()]
    return "\n".join(lines) + "\n"


def advice_for(kind: type[GoQueueError]) -> str:
    """What a client does about this kind of error."""
    if kind in _ADVICE:
        return _ADVICE[kind]
    problem = _nearest(PROBLEMS, kind)
    if problem.code in _BY_CODE:
        return _BY_CODE[problem.code]
    return _RETRY if kind.retriable else _BY_STATUS[problem.status]


def _row(kind: type[GoQueueError]) -> str:
    own = next((each for each in _PROTOCOLS if f".{each}." in kind.__module__), "")
    problem = _nearest(PROBLEMS, kind)
    http = (str(problem.status), f"`{problem.code}`") if own in {"", "http"} else ("", "")
    kafka = _nearest(KAFKA_CODES, kind).name.upper() if own in {"", "kafka"} else ""
    status = _nearest(GRPC_CODES, kind).status.name if own in {"", "grpc"} else ""
    text = " ".join((inspect.getdoc(kind) or "").split()).replace("|", "\\|")
    retriable = "yes" if kind.retriable else ""
    return (
        f"| {http[0]} | {http[1]} | {kafka} | {status} | {retriable} | {text} | "
        f"{advice_for(kind)} |"
    )


def _kinds() -> list[type[GoQueueError]]:
    """Every kind that a table names, by HTTP's code."""
    found = {*PROBLEMS, *KAFKA_CODES, *GRPC_CODES} & set(_below(GoQueueError))
    return sorted(
        found,
        key=lambda kind: (
            _nearest(PROBLEMS, kind).status,
            _nearest(PROBLEMS, kind).code,
            kind.__name__,
        ),
    )


def _below(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _nearest(table: Mapping[type[GoQueueError], _T], kind: type[GoQueueError]) -> _T:
    return next(table[each] for each in kind.__mro__ if each in table)


if __name__ == "__main__":
    sys.stdout.write(reference())
