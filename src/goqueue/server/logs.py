"""The server's own log, on standard error: lines for people, or JSON for programs.

Names of topics, clients and users are in it, which clients choose. Whatever they hold, a message is
one line, and tells a terminal nothing: control characters are written as escapes.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from goqueue.server.config_node import LogFormat, LoggingSection

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
"""What ends a line, or may be a command to a terminal."""
_ESCAPES: Final = {each: chr(each).encode("unicode_escape").decode() for each in _CONTROLS}
_JSON_ESCAPES: Final = {each: f"\\u{each:04x}" for each in _CONTROLS}
_INDENT: Final = "    "


def set_up_logging(settings: LoggingSection) -> None:
    """Write what the settings ask for; libraries only say what is wrong."""
    handler = logging.StreamHandler()
    is_json = settings.format is LogFormat.JSON
    handler.setFormatter(_JsonFormatter() if is_json else _TextFormatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("goqueue").setLevel(settings.level.upper())


class _TextFormatter(logging.Formatter):
    """One line a message; what follows it is indented."""

    def format(self, record: logging.LogRecord) -> str:
        said = record.getMessage().translate(_ESCAPES)
        fields = {**record.__dict__, "msg": said, "args": None, "exc_text": None}
        return super().format(logging.makeLogRecord(fields))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - of logging
        lines = super().formatException(ei).split("\n")
        return "\n".join(_INDENT + each.translate(_ESCAPES) for each in lines)


class _JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False).translate(_JSON_ESCAPES)
