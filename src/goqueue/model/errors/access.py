"""Users, keys, rules and rights."""

from __future__ import annotations

from typing import Self

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.storage import StorageError


class CredentialError(GoQueueError):
    """A login, or a request about users, keys, roles or rules, cannot be served."""


class AuthenticationFailedError(CredentialError):
    """A login failed. The text is for our log; a client is never told which part was wrong."""

    is_expired: bool = False
    """Whether the key or the token was good until it expired; for the audit log."""

    @classmethod
    def expired(cls, text: str) -> Self:
        """The error of a key or a token that has expired."""
        error = cls(text)
        error.is_expired = True
        return error

    def told(self, text: str) -> AuthenticationFailedError:
        """The same with the text that the client gets."""
        error = AuthenticationFailedError(text)
        error.is_expired = self.is_expired
        return error


class ProviderBusyError(CredentialError):
    """As much waits for the OIDC provider as may wait; this was not asked."""

    retriable = True


class UnacceptableCredentialError(CredentialError):
    """A name, a salt or a number of iterations that no user may have."""


class UnknownCredentialError(CredentialError):
    """The user does not exist, or has no keys for that mechanism."""


class UnsupportedMechanismError(CredentialError):
    """A mechanism that does not exist, or that keys cannot be stored for."""


class TooManyCredentialsError(CredentialError):
    """There are as many users, keys, rules or roles as there may be."""


class UnknownKeyError(CredentialError):
    """There is no API key of that id."""


class UnknownRuleError(CredentialError):
    """There is no rule of that id."""


class UnknownRoleError(CredentialError):
    """There is no role of that name."""


class InvalidRuleError(CredentialError):
    """A rule has an invalid principal, resource or operation."""


class InvalidRoleError(CredentialError):
    """A role has an invalid name or permission, or is built in."""


class AccessDisabledError(CredentialError):
    """Rules, roles and keys are not checked on this server, so none are stored."""


class AuthorizationFailedError(GoQueueError):
    """The principal may not do this. The text is the same whether or not the object exists."""


class TopicAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a topic."""


class GroupAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a group."""


class TransactionalIdAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on a transactional id."""


class ClusterAuthorizationFailedError(AuthorizationFailedError):
    """The principal lacks a right on the cluster."""


class CorruptCredentialError(StorageError):
    """The stored keys of a user do not decode."""
