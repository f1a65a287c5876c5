"""What `goqueue --help` says of each command, so that it need not import them all.

A test holds every line to the command's own help; a command that is not here is imported.
"""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "server": "Run a broker. SIGTERM or Ctrl-C stops it in order, a second one at once.",
    "topic": "Create, show and change topics.",
    "produce": "Publish messages from -m, a file of JSON lines, or the lines of standard input.",
    "consume": "Print messages; with -o json, one line of JSON each. Messages stay in the topic.",
    "group": "Consumer groups: members, lag, offsets.",
    "queue": "Queue groups and their dead-letter queues.",
    "worker": "Run the tasks of an app, in processes that are restarted when they die.",
    "acl": "Create, list and delete access control lists.",
    "audit": "The audit log: show events, check the hash chain.",
    "backup": "Make, list, verify, prune, schedule and restore backups.",
    "bench": "Run the benchmarks of a source checkout, all or some groups of them.",
    "cluster": "Clusters: start, stop and inspect them.",
    "config": "Contexts of this user, and the effective settings of a server.",
    "debug": "Collect what is needed to look into a problem.",
    "delayed": "Delayed messages: list, show, cancel.",
    "doctor": (
        "Check the server and this machine, and say what to do; the exit code is 1 after a failure."
    ),
    "health": "Check that the server responds; the exit code is 1 when it does not.",
    "init": (
        "Set up a server that other machines may reach: certificates, administrator, configuration."
    ),
    "job": "Spark jobs over the messages of a topic.",
    "key": "Create, list and revoke API keys.",
    "login": (
        "Keep an API key or a token for a server. It is asked for, or read from standard input."
    ),
    "logout": (
        "Remove the key of a context from the file or the keyring. The server does not revoke it."
    ),
    "maintenance": "Status of retention and TTL, and resuming them.",
    "pipeline": "Run, check and inspect Spark pipelines.",
    "quota": "Show and change the quotas of a tenant.",
    "quickstart": (
        "Take a tour of two minutes: log, queue, retries, dead letters, delay, priority, replay."
    ),
    "role": "List, create and delete roles.",
    "schema": "Register, show and delete schemas.",
    "tenant": "Create, list, change, suspend and delete tenants.",
    "top": (
        "Watch topics, rates, sizes, groups, lag and nodes until Ctrl-C; -o json prints JSON lines."
    ),
    "trace": "Message tracing: what happened to a message.",
    "transaction": "List transactions, and abort hanging ones.",
    "usage": "Show what tenants use of their quotas.",
    "user": "Create, list, change and delete users.",
    "version": (
        "Show the version, the record codec, Python and the platform, here and on the server."
    ),
    "webhook": "Create, change, test and delete webhooks, and see what they were sent.",
}
