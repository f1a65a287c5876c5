"""Every command, registered. Nothing heavy is imported here: users feel start-up on every call."""

from __future__ import annotations

import typer

from goqueue.cli import (
    bench,
    cluster,
    config,
    consume,
    delayed,
    group,
    maintenance,
    pipeline,
    produce,
    queue,
    schema,
    server,
    top,
    topic,
    trace,
    transaction,
    version,
)
from goqueue.cli.calls import command, root_callback

_ANY_FLAG = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _server(context: typer.Context) -> None:
    server.main(context.args)


app = typer.Typer(name="goqueue", no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(root_callback)
app.command("server", help=server.SUMMARY, context_settings=_ANY_FLAG)(_server)
app.add_typer(topic.app, name="topic")
command(app, "produce")(produce.produce_messages)
command(app, "consume")(consume.consume_messages)
app.add_typer(group.app, name="group")
app.add_typer(queue.app, name="queue")
app.add_typer(delayed.app, name="delayed")
app.add_typer(schema.app, name="schema")
app.add_typer(transaction.app, name="transaction")
app.add_typer(trace.app, name="trace")
app.add_typer(pipeline.app, name="pipeline")
command(app, "top")(top.show_top)
app.add_typer(cluster.app, name="cluster")
app.add_typer(maintenance.app, name="maintenance")
app.add_typer(config.app, name="config")
command(app, "version")(version.show_version)
app.command("bench")(bench.run_benchmarks)
