"""What every command shares: the global options, the server to talk to, and one place for errors.

    @command(app, "list")
    def list_topics(call: Call, internal: Annotated[bool, ...] = False) -> None: ...

The options of the first line of `goqueue --help` may stand before the command or after it.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_type_hints

import typer

from goqueue.cli import contexts
from goqueue.cli.completion import context_names
from goqueue.cli.errors import CliError, RefusedError, UsageError
from goqueue.cli.output import Format, Shown, emit, fail, note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from goqueue.cli.api import Api

_PANEL: Final = "Global options"
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells have it."""


ServerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        metavar="URL",
        help="The URL of the server, as in http://localhost:8080; of a cluster, of several nodes.",
        rich_help_panel=_PANEL,
    ),
]
ContextOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--context",
        "-c",
        metavar="NAME",
        help="A context of the contexts file.",
        rich_help_panel=_PANEL,
        autocompletion=context_names,
    ),
]
OutputOption: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", help="The output format. (default: table)", rich_help_panel=_PANEL
    ),
]
TimeoutOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="The timeout of a request. (default: 30)",
        rich_help_panel=_PANEL,
    ),
]
ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", "-f", help="Skip the confirmation.")
]
ColorOption: TypeAlias = Annotated[
    bool, typer.Option("--no-color", help="Print without colours.", rich_help_panel=_PANEL)
]


@dataclass(slots=True)
class Globals:
    """The global options as they were given, before the command or after it."""

    server: str | None = None
    context: str | None = None
    output: Format | None = None
    timeout: str | None = None
    no_color: bool = False

    def over(self, other: Globals) -> Globals:
        """These where they say something, the others where they do not."""
        return Globals(
            *(getattr(self, each.name) or getattr(other, each.name) for each in fields(Globals))
        )


def root_callback(
    context_: typer.Context,
    *,
    server: ServerOption = None,
    context: ContextOption = None,
    output: OutputOption = None,
    timeout: TimeoutOption = None,
    no_color: ColorOption = False,
) -> None:
    """A message broker: Kafka's protocol, work queues, HTTP and gRPC.

    `goqueue --version` shows the version, its commit and when it was built.
    """
    context_.obj = Globals(server, context, output, timeout, no_color)


class Call:
    """One run of a command."""

    def __init__(self, given: Globals) -> None:
        self.given = given
        self.output = given.output or Format.TABLE
        self._api: Api | None = None

    def target(self) -> contexts.Target:
        """The server that this run talks to.

        Raises:
            CliError: it cannot be told which.
        """
        given = self.given
        timeout = given.timeout
        return contexts.resolve(
            contexts.load(contexts.file_path()),
            os.environ,
            server=given.server,
            context=given.context,
            timeout_s=None if timeout is None else contexts.parse_timeout(timeout, "--timeout"),
        )

    @property
    def api(self) -> Api:
        """That server."""
        if self._api is None:
            from goqueue.cli.api import Api  # noqa: PLC0415 - not for commands that need no server

            self._api = Api(self.target())
        return self._api

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._api is not None:
            self._api.close()

    def show(
        self,
        data: Shown,
        table: Shown | None = None,
        *,
        empty: str = "no results",
    ) -> None:
        """Print a result; `table` is what people get of it, `empty` what they read of no rows."""
        shown = table if self.output is Format.TABLE and table is not None else data
        emit(shown, self.output)
        if self.output is Format.TABLE and not shown:
            note(empty)


def command(
    app: typer.Typer, name: str, **options: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function whose first argument is its `Call`; errors become one line."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        parameters = own_parameters(function, {"Call": Call})
        app.command(name, **options)(runnable(function, parameters))
        return function

    return register


def own_parameters(
    function: Callable[..., Any], names: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """The options of a function, without its first argument; `names` are those of type hints."""
    _, *own = all_parameters(function, names)
    return own


def all_parameters(
    function: Callable[..., Any], names: Mapping[str, Any] | None = None
) -> list[inspect.Parameter]:
    """The options of a function whose every argument is one."""
    hints = get_type_hints(function, localns=dict(names or {}), include_extras=True)
    return [
        each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(function).parameters.values()
    ]


def runnable(function: Callable[..., None], own: list[inspect.Parameter]) -> Callable[..., None]:
    """What Typer sees: a command's own parameters and the global ones."""
    taken = {each.name for each in own}  # a command may mean something else by an option
    shared = get_type_hints(root_callback, include_extras=True)
    common = [
        each.replace(annotation=shared[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(root_callback).parameters.values()
        if each.name not in taken
    ]

    @functools.wraps(function)
    def run(**values: Any) -> None:
        context: typer.Context = values.pop("context_")
        names = {each.name for each in fields(Globals)} - taken
        given = Globals(**{name: values.pop(name) for name in names})
        before = context.find_root().obj
        call = Call(given.over(before) if isinstance(before, Globals) else given)
        if call.given.no_color:
            os.environ["NO_COLOR"] = "1"
        _reporting(call, function, values)

    made: Any = run
    made.__signature__ = inspect.Signature([*own, *common])
    made.__annotations__ = {each.name: each.annotation for each in [*own, *common]}
    del made.__wrapped__  # or its signature would be taken
    return run


def _reporting(call: Call, function: Callable[..., None], values: dict[str, Any]) -> None:
    """Run a command; the one place where errors become words and exit codes."""
    try:
        function(call, **values)
    except RefusedError as error:
        fail(f"{error}{_nearest(call, error)}", error.exit_code)
    except CliError as error:
        fail(str(error), error.exit_code)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        call.close()


def _nearest(call: Call, error: RefusedError) -> str:
    """What was probably meant, when a name is unknown and a known one looks like it."""
    if error.code not in {"unknown_topic", "unknown_group"}:
        return ""
    from goqueue.cli import listing  # noqa: PLC0415 - only when a name is unknown

    lists = listing.topics if error.code == "unknown_topic" else listing.groups
    try:
        known = lists(call.api)
    except CliError:
        return ""
    found = [
        match
        for name in error.mentioned
        if name not in known
        for match in difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    ]
    return f". Did you mean {' or '.join(found)}?" if found else ""


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """`NAME=VALUE`.

    Raises:
        UsageError: it has no name or no value.
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"{option}: expected NAME=VALUE, not {text!r}")
    return name.strip(), value


def parse_pairs(given: Iterable[str] | None, option: str) -> dict[str, str]:
    """All `NAME=VALUE` of an option that can be repeated."""
    return dict(parse_pair(each, option) for each in given or ())


def confirm(what: str, *, force: bool) -> None:
    """Ask for the word "yes" before something cannot be undone.

    Raises:
        CliError: there is nobody to ask, or the answer was another.
    """
    if force:
        return
    typer.echo(f"{what} Type yes to continue: ", nl=False, err=True)
    answer = typer.get_text_stream("stdin").readline()
    if not answer:
        typer.echo(err=True)
        raise CliError("nothing was changed: there was no answer; use -f in scripts")
    if answer.strip().lower() != "yes":
        raise CliError("nothing was changed")
