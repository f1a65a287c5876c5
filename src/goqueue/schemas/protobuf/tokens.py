"""The words of a .proto file."""

from __future__ import annotations

import re
from typing import Final

from goqueue.model.errors import InvalidSchemaError
from goqueue.model.tuples import NamedTuple

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}\[\]()<>=;,.:+/-])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE: Final = re.compile(
    rb"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|u(?P<u4>[0-9a-fA-F]{4})"
    rb"|U(?P<u8>[0-9a-fA-F]{8})|(?P<other>.))",
    re.DOTALL,
)
_SIMPLE: Final = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


class Token(NamedTuple):
    """A word with its place. The end is a word without text."""

    kind: str
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """All words, the end among them.

    Raises:
        InvalidSchemaError: something is none.
    """
    found: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidSchemaError(f"line {line}: {text[at : at + 20]!r} is nothing of .proto")
        kind, word = str(match.lastgroup), match.group()
        if kind != "space":
            found.append(Token(kind, word, line))
        line += word.count("\n")
        at = match.end()
    found.append(Token("end", "", line))
    return found


def unquoted(word: str) -> bytes:
    """What a text in quotes stands for."""
    return _ESCAPE.sub(_unescaped, word[1:-1].encode())


def _unescaped(match: re.Match[bytes]) -> bytes:
    kind, text = str(match.lastgroup), match.group(str(match.lastgroup))
    if kind == "hex":
        return bytes([int(text, 16)])
    if kind == "octal":
        return bytes([int(text, 8) & 0xFF])
    if kind == "other":
        if text[0] not in _SIMPLE:
            raise InvalidSchemaError(f"no escape of .proto: {match.group().decode()!r}")
        return bytes([_SIMPLE[text[0]]])
    try:
        return chr(int(text, 16)).encode()
    except (ValueError, OverflowError):
        raise InvalidSchemaError(f"no character: {match.group().decode()!r}") from None


class Words:
    """The words of a file, read one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._at = 0

    @property
    def now(self) -> Token:
        """The next word."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """The next word, which is then behind us."""
        token = self.now
        if token.kind == "end":
            raise self.wrong("more")
        self._at += 1
        return token

    def eat(self, *texts: str) -> bool:
        """Go on if these are the next words."""
        following = [each.text for each in self._tokens[self._at : self._at + len(texts)]]
        if following != list(texts) or self.now.kind == "text":
            return False
        self._at += len(texts)
        return True

    def need(self, text: str) -> None:
        """Go on, or refuse."""
        if not self.eat(text):
            raise self.wrong(repr(text))

    def wrong(self, expected: str) -> InvalidSchemaError:
        """What to raise where something else was expected."""
        found = self.now.text or "the end"
        return InvalidSchemaError(f"line {self.now.line}: expected {expected}, not {found[:40]!r}")

    def name(self) -> str:
        """An identifier."""
        if self.now.kind != "name":
            raise self.wrong("a name")
        return self.take().text

    def path(self) -> str:
        """Identifiers with dots between them, perhaps one before."""
        leading = "." if self.eat(".") else ""
        parts = [self.name()]
        while self.eat("."):
            parts.append(self.name())
        return leading + ".".join(parts)

    def number(self, low: int, high: int) -> int:
        """A whole number within bounds."""
        token = self.now
        negative = self.eat("-")
        word = self.now.text
        try:
            value = int(word, 16 if word[:2] in {"0x", "0X"} else 8 if word[:1] == "0" else 10)
        except ValueError:
            raise self.wrong("a whole number") from None
        self.take()
        value = -value if negative else value
        if not low <= value <= high:
            raise InvalidSchemaError(f"line {token.line}: {value} is not within {low} and {high}")
        return value

    def text(self) -> bytes:
        """A text in quotes, or several in a row."""
        if self.now.kind != "text":
            raise self.wrong("a text in quotes")
        parts = []
        while self.now.kind == "text":
            parts.append(unquoted(self.take().text))
        return b"".join(parts)
