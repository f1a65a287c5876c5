"""Names of a tenant: in and out again, against the dumb twin that writes the id in front."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from goqueue.access.tenants.namespace import Namespace
from goqueue.model.errors import InvariantError
from goqueue.model.patterns import whole_match

TENANTS = st.from_regex(r"[a-z][a-z0-9-]{2,12}", fullmatch=True)
NAMES = st.text(st.sampled_from("abO0._-"), min_size=1, max_size=12)


@given(TENANTS, st.text(min_size=1))
def test_a_name_goes_in_and_comes_out_as_it_was(tenant: str, name: str) -> None:
    namespace = Namespace(tenant)
    assert namespace.inside(name) == f"{tenant}.{name}"
    assert namespace.outside(namespace.inside(name)) == name


@given(TENANTS, TENANTS, NAMES, NAMES)
def test_no_two_tenants_ever_mean_the_same(one: str, other: str, mine: str, theirs: str) -> None:
    same = Namespace(one).inside(mine) == Namespace(other).inside(theirs)
    assert same == (one == other and mine == theirs)


@given(TENANTS, TENANTS, NAMES)
def test_the_name_of_another_tenant_is_never_shown(one: str, other: str, name: str) -> None:
    inside = Namespace(other).inside(name)
    if one == other:
        assert Namespace(one).outside(inside) == name
    else:
        with pytest.raises(InvariantError):
            Namespace(one).outside(inside)


def test_no_name_stays_no_name() -> None:
    assert Namespace("acme").inside("") == Namespace("acme").outside("") == ""
    with pytest.raises(InvariantError):
        Namespace("acme").outside("orders")


def test_texts_show_names_as_the_client_knows_them() -> None:
    shown = Namespace("acme").text_outside("there is no topic 'acme.orders' of acme.")
    assert shown == "there is no topic 'orders' of acme."


ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[]a]", "[[:alpha:]]", "O", "0", r"\.", "-", "^", "$", r"\A",
     r"\Q^.\E", r"\Q.", "(?i)a", "[a^]", r"[\]^]"]
)  # fmt: skip


@st.composite
def patterns(draw) -> str:
    parts = draw(st.lists(ATOMS, min_size=1, max_size=4))
    text = "".join(part + draw(st.sampled_from(["", "*", "+", "?"])) for part in parts)
    if draw(st.booleans()):
        text = f"({text}|{''.join(draw(st.lists(ATOMS, min_size=1, max_size=2)))})"
    return draw(st.sampled_from(["", "^"])) + text


def compiled(pattern: str):
    try:
        return whole_match(pattern, max_chars=10_000)
    except Exception:  # noqa: BLE001 - whatever RE2 says to a pattern that was put together blindly
        return None


@given(TENANTS, patterns(), st.lists(NAMES, min_size=1, max_size=8))
@example("acme", r"^orders.*", ["orders-1", "my-orders"])
@example("acme", r"\Qa", ["a", "b"])
@example("acme", r"a|b", ["a", "b"])
def test_a_pattern_inside_matches_what_it_matches_outside(tenant, pattern, names) -> None:
    plain = compiled(pattern)
    if plain is None or re.search(r".\^|.\\A", pattern.replace("[^", "").replace(r"\Q^", "")):
        return  # an anchor behind something else never matches, and is not worth a rule
    scoped = whole_match(Namespace(tenant).pattern_inside(pattern), max_chars=10_000)
    for name in names:
        assert scoped(f"{tenant}.{name}") == plain(name), (pattern, name)


@given(TENANTS, TENANTS, patterns(), NAMES)
def test_a_pattern_inside_matches_nothing_of_others(tenant, other, pattern, name) -> None:
    if compiled(pattern) is None:
        return
    scoped = compiled(Namespace(tenant).pattern_inside(pattern))
    assert scoped is not None
    assert not scoped(name) or name.startswith(f"{tenant}.")
    if other != tenant:
        assert not scoped(f"{other}.{name}")
