"""The reference page of the command line, out of the commands themselves.

`python -m goqueue.cli.reference > docs/cli.md`; a test holds the page to it.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import typer.main

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION: Final = """\
# The command line

`goqueue server` runs a broker; the other commands talk to one over HTTP.

```sh
goqueue topic create orders -p 3
echo "hello" | goqueue produce orders
goqueue consume orders --follow
goqueue top
```

## What all commands share

The global options may stand before the command or after it.

{options}

Which server a command talks to is decided by the first of these that says something: `--server`,
`--context`, the variables `GOQUEUE_SERVER` and `GOQUEUE_CONTEXT`, the current context of
`~/.goqueue/config.yaml`, and last `http://localhost:8080`. `GOQUEUE_TIMEOUT` and `GOQUEUE_API_KEY`
stand between the flags and the file in the same way. The key of a context is sent to the server of
that context and to no other. The file is readable by its owner alone. A server with a certificate
of its own is trusted when `SSL_CERT_FILE` names the file of whoever signed it.

Results go to standard output, everything else to standard error. `-o json` and `-o yaml` are for
programs: their fields keep their names, and sizes are bytes, times milliseconds since 1970. What
comes one by one (`consume`, `top`) is a line of JSON, or a YAML document, each.

| exit code | meaning |
| ---: | --- |
| 0 | done |
| 1 | refused by the server, not reachable, not healthy, or done in part |
| 2 | what was asked for makes no sense |
| 130 | ended by Ctrl-C |

Whatever cannot be undone asks for the word `yes` first, unless `-f` is given.

`goqueue --install-completion` teaches your shell the commands, their options, and the names of the
topics and groups that the server has.

## Publishing

`goqueue produce TOPIC` takes messages from `-m`, from a file of JSON lines with `-f`, or else from
standard input, a message a line. A line of a file:

```json
{{"key": "customer-7", "value": {{"id": 1}}, "headers": {{"source": "web"}}, "partition": 0}}
```

Only `value` must be there. One that is no text is published as its JSON; `null` is a tombstone.
`"encoding": "base64"` and `"key_encoding": "base64"` are for bytes, `timestamp` is a time. Empty
lines and lines that begin with `#` do not count. What is wrong with a line is reported with its
number, the other lines are published, and the exit code is 1.

## Times

`--from-time` and its like take `2025-01-31T12:00:00Z`, the same without a zone for the zone of this
machine, milliseconds since 1970, or how long ago: `90s`, `15m`, `1h30m`, `7d`.

## Every command
"""


def reference() -> str:
    """The text of `docs/cli.md`."""
    from goqueue.cli.root import app  # noqa: PLC0415 - it imports all commands

    root = typer.main.get_command(app)
    introduction = _INTRODUCTION.format(options="\n".join(_options(root, is_global=True)))
    return introduction + "".join(f"\n{each}\n" for each in _commands(root, "goqueue"))


def _commands(command: Any, path: str) -> Iterator[str]:
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, f"{path} {name}")
        elif name == "server":
            yield f"### {path} {name}\n\n{each.help} See [configuration](configuration.md)."
        else:
            yield "\n".join(_section(each, f"{path} {name}"))


def _section(command: Any, path: str) -> Iterator[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    usage = " ".join([path, *(_usage(each) for each in arguments)])
    yield f"### {path}\n"
    yield f"`{usage} [OPTIONS]`\n"
    yield _joined(command.help)
    options = list(_options(command, is_global=False))
    if options:
        yield ""
        yield from options


def _usage(argument: Any) -> str:
    name: str = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _options(command: Any, *, is_global: bool) -> Iterator[str]:
    rows = [
        each
        for each in command.params
        if each.param_type_name == "option"
        and bool(getattr(each, "rich_help_panel", None)) == is_global
        and each.name not in {"install_completion", "show_completion", "help"}
    ]
    if not rows:
        return
    yield "| option | meaning |"
    yield "| --- | --- |"
    for each in rows:
        names = ", ".join(f"`{name}`" for name in [*each.opts, *each.secondary_opts])
        default = _default(each)
        required = " Required." if each.required else ""
        yield f"| {names} | {each.help or ''}{required}{default} |".replace("  ", " ")


def _default(option: Any) -> str:
    value = option.default
    if value is None or callable(value) or isinstance(value, bool) or option.required:
        return ""
    return f" (default: {getattr(value, 'value', value)})"


def _joined(text: str | None) -> str:
    """A docstring with its paragraphs each on one line."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


if __name__ == "__main__":
    sys.stdout.write(reference())
