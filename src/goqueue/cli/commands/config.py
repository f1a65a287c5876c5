"""`goqueue config`: the contexts of this user, and the settings that a server would have here."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, TypeAlias

import typer

from goqueue.cli import contexts
from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.completion import context_names
from goqueue.cli.errors import CliError, UsageError

MASK: Final = "********"

app = typer.Typer(
    no_args_is_help=True, help="Contexts of this user, and the effective settings of a server."
)

NameArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The context.", autocompletion=context_names)
]


@command(app, "view")
def view(call: Call) -> None:
    """Show the contexts file, with masked keys."""
    found = contexts.load(contexts.file_path())
    document = contexts.document_of(found, mask=MASK)
    rows = [{"name": name, **_row(each)} for name, each in found.by_name.items()]
    table = {
        "file": contexts.file_path(),
        "current-context": document["current-context"],
        "contexts": rows,
    }
    call.show(document, table)


@command(app, "get-contexts")
def get_contexts(call: Call) -> None:
    """List the contexts."""
    found = contexts.load(contexts.file_path())
    call.show(
        [
            {"name": name, "current": name == found.current, "server": each.server}
            for name, each in found.by_name.items()
        ]
    )


@command(app, "use-context")
def use_context(call: Call, name: NameArgument) -> None:
    """Set the current context."""
    path = contexts.file_path()
    found = contexts.load(path)
    chosen = found.named(name)
    contexts.save(path, replace(found, current=name))
    call.show({"current": name, "server": chosen.server})


@command(app, "set-context")
def set_context(
    call: Call,
    name: NameArgument,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", "-s", metavar="URL[,URL]...", help="The server, or nodes of a cluster."
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="-",
            help="Read the key that is sent with every request from standard input: --api-key -",
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="SECONDS", help="The timeout of a request.")
    ] = None,
) -> None:
    """Add or change a context. The first context becomes the current one."""
    if server is None and api_key is None and timeout is None:
        raise UsageError("nothing to set: expected --server, --api-key or --timeout")
    path = contexts.file_path()
    is_first = not path.exists()
    found = contexts.load(path)
    context = found.by_name.get(name, contexts.Context())
    if server is not None:
        context = replace(context, server=contexts.checked_url(server, "--server"))
    if api_key is not None:
        if api_key != "-":
            raise UsageError(
                "--api-key: a key here could be read by everybody in the list of processes; "
                "expected --api-key - with the key on standard input, or use `goqueue login`"
            )
        api_key = typer.get_text_stream("stdin").readline().strip()
        key = contexts.checked_key(api_key, "--api-key")
        context = contexts.with_key(context, name, key)
    if timeout is not None:
        context = replace(context, timeout_s=contexts.parse_timeout(timeout, "--timeout"))
    found = found.with_context(name, context)
    contexts.save(path, replace(found, current=name) if is_first else found)
    call.show({"name": name, **_row(context)})


@command(app, "delete-context")
def delete_context(call: Call, name: NameArgument, force: ForceOption = False) -> None:
    """Delete a context that is not the current one."""
    path = contexts.file_path()
    found = contexts.load(path)
    server = found.named(name).server
    if name == found.current:
        raise CliError(f"{name} is the current context: choose another with `use-context` first")
    confirm(f"Context {name} ({server}) will be deleted.", force=force)
    contexts.with_key(found.named(name), name, None)
    contexts.save(path, found.without(name))
    call.show({"deleted": name})


@command(
    app,
    "effective",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def show_effective(
    call: Call,
    flags: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FLAGS]...", help="Flags as `goqueue server` takes them."),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from their defaults.")
    ] = False,
) -> None:
    """Show the effective settings of `goqueue server`, and where each comes from."""
    from goqueue.model.errors import GoQueueError  # noqa: PLC0415 - start-up stays light
    from goqueue.server.config_docs import effective  # noqa: PLC0415 - as above
    from goqueue.server.config_load import load_config  # noqa: PLC0415 - as above

    try:
        config = load_config(flags or ())
    except GoQueueError as error:
        raise UsageError(str(error)) from error
    call.show(
        [
            {"setting": each.setting, "value": each.value, "source": each.source}
            for each in effective(config)
            if not changed or each.source != "default"
        ]
    )


def _row(context: contexts.Context) -> dict[str, object]:
    return {
        "server": context.server,
        "api-key": None if context.api_key is None else MASK,
        "keyring": context.keyring,
        "timeout": None if context.timeout_s is None else f"{context.timeout_s:g}s",
    }
