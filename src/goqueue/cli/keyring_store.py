"""Keys of contexts in the keyring of the system, where the user asks for that.

The library is an extra, `goqueue[keyring]`: a server and most users need no D-Bus, and the file of
the contexts is readable only by its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.cli.errors import CliError

if TYPE_CHECKING:
    from types import ModuleType

_SERVICE: Final = "goqueue"
_INSTALL: Final = "pip install 'goqueue[keyring]' installs it"


def read_key(context: str) -> str:
    """The key of a context.

    Raises:
        CliError: there is no keyring, it is locked, or it has no such key.
    """
    keyring = _library()
    try:
        found: str | None = keyring.get_password(_SERVICE, context)
    except keyring.errors.KeyringError as error:
        raise CliError(f"the keyring cannot be read: {_reason(error)}") from error
    if found is None:
        raise CliError(
            f"the keyring has no key for context {context}: `goqueue login {context} --keyring` "
            "stores one"
        )
    return found


def store_key(context: str, key: str) -> None:
    """Store the key of a context.

    Raises:
        CliError: there is no keyring, or it refuses.
    """
    keyring = _library()
    try:
        keyring.set_password(_SERVICE, context, key)
    except keyring.errors.KeyringError as error:
        raise CliError(
            f"nothing was stored: the keyring refuses: {_reason(error)}; without --keyring the key "
            "is kept in a file that only you can read"
        ) from error


def forget_key(context: str) -> None:
    """Remove the key of a context, if it is there.

    Raises:
        CliError: there is no keyring, or it refuses.
    """
    keyring = _library()
    try:
        keyring.delete_password(_SERVICE, context)
    except keyring.errors.PasswordDeleteError:
        return
    except keyring.errors.KeyringError as error:
        raise CliError(f"the keyring keeps its key: {_reason(error)}") from error


def _library() -> ModuleType:
    try:
        import keyring  # noqa: PLC0415 - an extra
        import keyring.errors  # noqa: PLC0415 - as above
    except ImportError as error:
        raise CliError(f"a key in the keyring needs the library keyring: {_INSTALL}") from error
    return keyring


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
