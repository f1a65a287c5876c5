"""Which server a command talks to: the contexts file, the environment and the flags, in one rule.

A context is a name for a server with its key and its timeout. They are kept in a file in the home
folder, which only its owner may read, since keys are in it, unless they are in the keyring.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.keyring_store import forget_key, read_key, store_key

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CONTEXT: Final = "local"
DEFAULT_SERVER: Final = "http://localhost:8080"
DEFAULT_TIMEOUT_S: Final = 30.0

SERVER_VARIABLE: Final = "GOQUEUE_SERVER"
CONTEXT_VARIABLE: Final = "GOQUEUE_CONTEXT"
KEY_VARIABLE: Final = "GOQUEUE_API_KEY"
TIMEOUT_VARIABLE: Final = "GOQUEUE_TIMEOUT"

_NAME: Final = re.compile(r"[a-zA-Z0-9._@-]{1,100}")


@dataclass(frozen=True, slots=True)
class Context:
    """What the file says under one name."""

    server: str = DEFAULT_SERVER
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float | None = None
    keyring: str | None = None
    """The key is in the system's keyring, under this name."""

    def key(self) -> str | None:
        """Its key, wherever that is.

        Raises:
            CliError: the keyring does not give it.
        """
        return self.api_key if self.keyring is None else read_key(self.keyring)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The whole file."""

    current: str = DEFAULT_CONTEXT
    by_name: Mapping[str, Context] = field(default_factory=lambda: {DEFAULT_CONTEXT: Context()})

    def named(self, name: str) -> Context:
        """One of them.

        Raises:
            UsageError: there is none of that name.
        """
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(self.by_name) or "none"
            raise UsageError(f"there is no context {name!r}; there are: {known}")
        return found

    def with_context(self, name: str, context: Context) -> Contexts:
        """The same with one context new or changed."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be a context's name: 1 to 100 letters, digits, '.', '_', '-', '@'"
            )
        return replace(self, by_name={**self.by_name, name: context})

    def without(self, name: str) -> Contexts:
        """The same without one context."""
        self.named(name)
        rest = {key: value for key, value in self.by_name.items() if key != name}
        return replace(self, by_name=rest)


@dataclass(frozen=True, slots=True)
class Target:
    """The server that a command talks to, and who said so.

    Of a cluster it may be several addresses, with commas between them: the first that answers is
    asked, and every node knows what the others do.
    """

    server: str
    source: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def servers(self) -> list[str]:
        """Each of the addresses."""
        return self.server.split(",")


def with_key(context: Context, name: str, key: str | None, *, in_keyring: bool = False) -> Context:
    """The context with another key, in the file or in the keyring; None takes the old one away.

    Raises:
        CliError: there is no keyring, or it refuses.
    """
    if in_keyring and key is not None:
        store_key(name, key)
        return replace(context, api_key=None, keyring=name)
    if context.keyring is not None:
        forget_key(context.keyring)
    return replace(context, api_key=key, keyring=None)


# --- The rule ------------------------------------------------------------------------------------


def resolve(
    contexts: Contexts,
    environment: Mapping[str, str],
    *,
    server: str | None = None,
    context: str | None = None,
    timeout_s: float | None = None,
) -> Target:
    """Flags, then the environment, then the file, then defaults.

    A context's key goes to that context's server and to no other: one given by address alone gets
    the key of the environment, or none.

    Raises:
        UsageError: a value makes no sense, or there is no such context.
    """
    chosen, source = _chosen(contexts, environment, server, context)
    key = checked_key(environment.get(KEY_VARIABLE), f"environment {KEY_VARIABLE}")
    if key is None or context is not None:
        key = chosen.key() or key
    if timeout_s is None and (raw := environment.get(TIMEOUT_VARIABLE)):
        timeout_s = parse_timeout(raw, f"environment {TIMEOUT_VARIABLE}")
    timeout_s = timeout_s or chosen.timeout_s or DEFAULT_TIMEOUT_S
    return Target(checked_url(chosen.server, source), source, key, timeout_s)


def _chosen(
    contexts: Contexts, environment: Mapping[str, str], server: str | None, context: str | None
) -> tuple[Context, str]:
    if server is not None:
        timeout_s = contexts.named(context).timeout_s if context is not None else None
        return Context(server, timeout_s=timeout_s), "flag --server"
    if context is not None:
        return contexts.named(context), f"context {context} (flag --context)"
    if variable := environment.get(SERVER_VARIABLE):
        return Context(variable), f"environment {SERVER_VARIABLE}"
    if name := environment.get(CONTEXT_VARIABLE):
        return contexts.named(name), f"context {name} (environment {CONTEXT_VARIABLE})"
    if not contexts.by_name:
        return Context(), "default"
    return contexts.named(contexts.current), f"context {contexts.current}"


def checked_url(text: str, source: str) -> str:
    """An address as a base URL, or several of them; `localhost:8080` will do.

    Raises:
        UsageError: one is no address of an HTTP server.
    """
    return ",".join(_checked_url(each.strip(), source) for each in text.split(","))


def _checked_url(text: str, source: str) -> str:
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    with contextlib.suppress(ValueError):  # a port that is no number
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return url.rstrip("/")
    raise UsageError(f"{source}: {text!r} is no server; expected something like {DEFAULT_SERVER}")


def checked_key(text: str | None, source: str) -> str | None:
    """A key that can be sent; an empty one is none.

    Raises:
        UsageError: it has a blank, or a character that no header of a request can have.
    """
    if text and not all("!" <= each <= "~" for each in text):
        raise UsageError(f"{source}: a key has only letters, digits and signs of ASCII, no blanks")
    return text or None


def parse_timeout(raw: object, source: str) -> float:
    """Seconds, as `30` or `30s` or `500ms`.

    Raises:
        UsageError: it is neither.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)?", str(raw).strip())
    seconds = float(found[1]) * {"ms": 0.001, None: 1, "s": 1, "m": 60}[found[2]] if found else 0.0
    if not 0 < seconds <= 3600:
        raise UsageError(f"{source}: {raw!r} is no timeout; expected up to an hour, such as 30s")
    return seconds


# --- The file ------------------------------------------------------------------------------------


def file_path() -> Path:
    """Where the contexts are."""
    return Path.home() / ".goqueue" / "config.yaml"


def load(path: Path) -> Contexts:
    """What the file says; without a file, the one context that everybody starts with.

    Raises:
        CliError: it cannot be read, or is no such file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    import yaml  # noqa: PLC0415 - whoever has no file does not wait for it

    try:
        document = yaml.safe_load(text)
        if document is None:
            return Contexts()
        entries = {str(name): _entry(each) for name, each in (document["contexts"] or {}).items()}
        return Contexts(str(document["current-context"]), entries)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise CliError(
            f"{path} is invalid ({' '.join(str(error).split())}): fix it, or delete it "
            "and run `goqueue config set-context`"
        ) from error


def _entry(document: Mapping[str, Any]) -> Context:
    key, timeout, keyring = (document.get(each) for each in ("api-key", "timeout", "keyring"))
    return Context(
        str(document.get("server", DEFAULT_SERVER)),
        checked_key(None if key is None else str(key), "api-key"),
        None if timeout is None else parse_timeout(timeout, "timeout"),
        None if keyring is None else str(keyring),
    )


def document_of(contexts: Contexts, *, mask: str | None = None) -> dict[str, Any]:
    """The file as data; with a mask, as it may be shown."""
    return {
        "current-context": contexts.current,
        "contexts": {
            name: {
                "server": each.server,
                **({} if each.api_key is None else {"api-key": mask or each.api_key}),
                **({} if each.keyring is None else {"keyring": each.keyring}),
                **({} if each.timeout_s is None else {"timeout": f"{each.timeout_s:g}s"}),
            }
            for name, each in contexts.by_name.items()
        },
    }


def save(path: Path, contexts: Contexts) -> None:
    """Replace the file as a whole; nobody else can read it at any moment.

    Raises:
        CliError: it cannot be written.
    """
    import yaml  # noqa: PLC0415 - as above

    text = yaml.safe_dump(document_of(contexts), sort_keys=False, allow_unicode=True)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes it 0600 before anything is in it.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}") from error
