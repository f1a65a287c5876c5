"""The server's own log, on standard error: lines for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from goqueue.server.config_node import LogFormat, LoggingSection

_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def set_up_logging(settings: LoggingSection) -> None:
    """Write what the settings ask for; libraries only say what is wrong."""
    handler = logging.StreamHandler()
    is_json = settings.format is LogFormat.JSON
    handler.setFormatter(_JsonFormatter() if is_json else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("goqueue").setLevel(settings.level.upper())


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
        return json.dumps(line, ensure_ascii=False)
