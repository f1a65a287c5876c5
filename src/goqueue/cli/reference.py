"""The reference page of the command line, out of the commands themselves.

`python -m goqueue.cli.reference > docs/reference/cli.md`; a test holds the page to it.
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

`goqueue server` runs a broker, `goqueue worker` runs [tasks](../how-to/workers.md), and the other
commands talk to a broker over HTTP.

```sh
goqueue topic create orders -p 3
echo "hello" | goqueue produce orders
goqueue consume orders --follow
goqueue top
```

## Global options

Global options can be given before or after the command.

{options}

A command talks to the server of the first of these that is set: `--server`, `--context`, the
variables `GOQUEUE_SERVER` and `GOQUEUE_CONTEXT`, the current context of `~/.goqueue/config.yaml`,
and by default `http://localhost:8080`. `GOQUEUE_TIMEOUT` and `GOQUEUE_API_KEY` take precedence
over the file, and flags over them. The key of a context is only sent to the server of that
context. The file is readable only by its owner; `goqueue login --keyring` keeps the key in the
keyring of the system instead. A context can have several servers of a cluster, with commas between
them: `goqueue config set-context prod -s https://a:8080,https://b:8080`. To trust a certificate of
a private authority, set `SSL_CERT_FILE` to the authority's certificate.

Results go to standard output, everything else to standard error. `-o json` and `-o yaml` are for
programs: field names are stable, sizes are in bytes, times in milliseconds since the epoch.
Commands that stream (`consume`, `top`) print one line of JSON or one YAML document for each item.

| exit code | meaning |
| ---: | --- |
| 0 | success |
| 1 | refused by the server, server unreachable or unhealthy, or partial success |
| 2 | invalid arguments |
| 130 | ended by Ctrl-C |

Commands that cannot be undone ask for confirmation with `yes`, unless `-f` is given.

`goqueue --install-completion` installs shell completion for commands, options, and the names of
topics and groups on the server.

## Publishing

`goqueue produce TOPIC` reads messages from `-m`, from a file of JSON lines with `-f`, or else from
standard input, one message per line. A line of a file:

```json
{{"key": "customer-7", "value": {{"id": 1}}, "headers": {{"source": "web"}}, "partition": 0}}
```

Only `value` is required. A value that is not a string is published as JSON; `null` is a tombstone.
Use `"encoding": "base64"` and `"key_encoding": "base64"` for bytes. Empty lines and lines that
start with `#` are skipped. Invalid lines are reported with their numbers, the other lines are
published, and the exit code is 1.

## Reading

`goqueue consume TOPIC` prints the ten earliest messages. `--offset -10` prints the last ten of each
partition, and `--follow` waits for more. `--format` is for scripts:

```sh
goqueue consume orders --offset -10 --format '%p:%o %k %v\\n'
goqueue consume orders --filter '$.user.age > 30 && $.country == "DE"'
```

| in `--format` | is printed as |
| --- | --- |
| `%t` `%p` `%o` | topic, partition, offset |
| `%k` | key, as it is stored; nothing if there is none |
| `%v` `%s` | value, as the registry decodes it, else as it is stored; nothing for a tombstone |
| `%h` | headers, as in `source=web,trace=1` |
| `%T` | timestamp in milliseconds since the epoch |
| `%S` | size of the stored value in bytes; -1 for a tombstone |
| `%%` | a percent sign |
| `\\n` `\\t` `\\r` `\\0` `\\\\` | line break, tab, carriage return, zero byte, backslash |
| `\\x1f` | any byte |

`--filter` takes conditions on values that are JSON: a path such as `$.user.age`,
`$['odd name']`, `$.items[0].id` or `$.items[*].id`, then `==`, `!=`, `<`, `<=`, `>`, `>=`,
`contains` or `=~` (an RE2 pattern), then a string in quotes, a number, `true`, `false` or `null`. A
path alone asks whether it exists. `&&`, `||`, `!` and parentheses combine conditions. Messages that
do not fit do not count for `-n`; members of a group commit them.

A value that names a schema of the [registry](../how-to/schemas.md), in a header or in the five
bytes that Confluent's serializers put before it, is shown and filtered as JSON, be it Avro,
Protobuf or JSON. `-o json` has it in `decoded` beside the stored `value`. `--decode none` turns
that off.

## Times

Options such as `--from-time` accept `2025-01-31T12:00:00Z` (without a zone: local time),
milliseconds since the epoch, or an age: `90s`, `15m`, `1h30m`, `7d`.

## Commands
"""


def reference() -> str:
    """The text of `docs/reference/cli.md`."""
    from goqueue.cli.root import app  # noqa: PLC0415 - it imports all commands

    root = typer.main.get_command(app)
    introduction = _INTRODUCTION.format(options="\n".join(_options(root, is_global=True)))
    return introduction + "".join(f"\n{each}\n" for each in _commands(root, "goqueue"))


def _commands(command: Any, path: str) -> Iterator[str]:
    for name, each in command.commands.items():
        if each.hidden:
            continue
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
