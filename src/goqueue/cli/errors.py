"""Why a command ends without having done its work. Each text says what is wrong and what to do."""

from __future__ import annotations

from typing import ClassVar


class CliError(Exception):
    """Shown to the user as one line on standard error."""

    exit_code: ClassVar[int] = 1


class UsageError(CliError):
    """What was asked for makes no sense, whatever the server would say."""

    exit_code = 2


class UnreachableError(CliError):
    """There is no answer, or none that a GoQueue server would give."""


class RefusedError(CliError):
    """The server has answered no; its own words say why."""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        code: str,
        field: str | None = None,
        mentioned: tuple[str, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code
        """Stable, unlike the text: what programs decide by."""
        self.field = field
        self.mentioned = mentioned
        """The names in the request, one of which may be unknown."""
