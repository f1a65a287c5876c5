"""What people who sign in send and are answered."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.protocols.http.api.shapes import Milliseconds, doc

SignInMethod = Literal["password", "key", "oidc"]


class SignInBody(msgspec.Struct, forbid_unknown_fields=True):
    """A user and a password, or an API key."""

    user: Annotated[str, doc("A user's name.", "alice", max_length=300)] | None = None
    password: Annotated[str, doc("The password.", "secret", max_length=1000)] | None = None
    key: (
        Annotated[str, doc("An API key or a token, in place of these.", "gq_…", max_length=16_384)]
        | None
    ) = None

    def __repr__(self) -> str:
        return f"SignInBody(user={self.user!r})"


class Allowed(msgspec.Struct):
    """What the console shows or leaves out; each request is checked on its own."""

    create_topics: bool
    see_cluster: bool
    """Nodes, settings, users, roles and rules."""
    change_access: bool
    """Users, keys, roles and rules."""


class SessionInfo(msgspec.Struct):
    """Who is signed in."""

    is_required: bool
    """Clients must say who they are."""
    principal: Annotated[str | None, doc("None: nobody is signed in.", "User:alice")]
    kind: Annotated[str | None, doc("How they have proven it.", "user")]
    roles: list[str]
    allowed: Allowed
    methods: Annotated[list[SignInMethod], doc("How people can sign in.", ["password", "key"])]
    csrf_token: Annotated[
        str | None, doc("To send as `X-CSRF-Token` with every change, beside the cookie.", "…")
    ]
    expires_at: Milliseconds | None


class SignedOut(msgspec.Struct):
    """The session has ended."""

    is_signed_out: bool = True


class CallbackQuery(msgspec.Struct):
    """What the provider sends back with the browser."""

    state: Annotated[str, doc("As it was sent there.", "…", max_length=200)] = ""
    code: Annotated[str, doc("To exchange for an ID token.", "…", max_length=4096)] = ""
    error: Annotated[str, doc("Why there is no code.", "access_denied", max_length=200)] = ""
