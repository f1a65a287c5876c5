from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from goqueue.access.credentials import (
    Decoys,
    User,
    check_user_name,
    decode_user,
    encode_user,
    has_password,
    new_user,
)
from goqueue.access.keys import SCRAM_HASHES, Mechanism, ScramKeys, keys_from_salted
from goqueue.access.logins import parse_plain
from goqueue.model.errors import (
    AuthenticationFailedError,
    CorruptCredentialError,
    UnacceptableCredentialError,
)
from support.effort import examples

PASSWORD = "correct horse"
ALICE = new_user("alice", PASSWORD, lambda: b"salt")
DECOYS = Decoys(b"secret")

keys = st.builds(ScramKeys, st.binary(), st.integers(4096, 16384), st.binary(), st.binary())
users = st.dictionaries(st.sampled_from(list(SCRAM_HASHES)), keys).map(
    lambda found: User("somebody", found)
)


@given(users)
def test_what_is_stored_comes_back(user):
    assert decode_user(user.name, encode_user(user)) == user


@given(users, st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_stored_bytes_that_are_damaged_decode_or_are_called_corrupt(user, place, junk):
    data = bytearray(encode_user(user))
    data[place : place + len(junk)] = junk
    try:
        found = decode_user(user.name, bytes(data))
    except CorruptCredentialError:
        return
    assert set(found.keys) <= set(SCRAM_HASHES)


def test_neither_a_password_nor_a_key_is_stored_in_the_clear_or_shown():
    stored = encode_user(ALICE)
    assert PASSWORD.encode() not in stored
    shown = repr(ALICE)
    assert PASSWORD not in shown
    assert "stored_key" not in shown
    assert "server_key" not in shown
    assert PASSWORD not in repr(parse_plain(f"\0alice\0{PASSWORD}".encode()))


def test_a_new_user_has_keys_of_every_mechanism_at_4096_iterations():
    assert set(ALICE.keys) == {Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512}
    assert {each.iterations for each in ALICE.keys.values()} == {4096}


@pytest.mark.parametrize("left", [set(SCRAM_HASHES), *({each} for each in SCRAM_HASHES)])
def test_a_password_is_checked_against_whatever_keys_there_are(left):
    user = User("alice", {name: found for name, found in ALICE.keys.items() if name in left})
    assert has_password(user, PASSWORD, partial(DECOYS.keys, "alice"))
    assert not has_password(user, PASSWORD + " ", partial(DECOYS.keys, "alice"))


def test_nobody_has_no_password():
    assert not has_password(None, PASSWORD, partial(DECOYS.keys, "bob"))
    assert not has_password(User("bob"), PASSWORD, partial(DECOYS.keys, "bob"))


def test_decoys_look_like_keys_and_stay_the_same_for_a_name():
    for mechanism, real in ALICE.keys.items():
        decoy = DECOYS.keys("bob", mechanism)
        assert decoy == Decoys(b"secret").keys("bob", mechanism)
        assert decoy != Decoys(b"other").keys("bob", mechanism)
        assert decoy.salt != DECOYS.keys("eve", mechanism).salt
        assert len(decoy.stored_key) == len(real.stored_key)
        assert decoy.iterations == real.iterations
        for size_bytes in (8, 100):
            like = msgspec.structs.replace(real, salt=bytes(size_bytes), iterations=9000)
            decoy = DECOYS.keys("bob", mechanism, like)
            assert (len(decoy.salt), decoy.iterations) == (size_bytes, 9000)
            assert decoy.salt != like.salt


@settings(max_examples=examples(50))
@given(st.text(max_size=400))
def test_a_name_is_1_to_255_bytes_of_utf_8_without_zeros(name):
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if 1 <= size <= 255 and "\0" not in name:
        check_user_name(name)
    else:
        with pytest.raises(UnacceptableCredentialError):
            check_user_name(name)


@pytest.mark.parametrize(
    ("salted", "salt", "iterations", "wrong"),
    [
        (32, 10, 4095, "4095 iterations"),
        (32, 10, 16385, "16385 iterations"),
        (32, 0, 4096, "salt of 0 bytes"),
        (32, 1025, 4096, "salt of 1025 bytes"),
        (31, 10, 4096, "password of 31 bytes"),
        (0, 10, 4096, "password of 0 bytes"),
    ],
)
def test_keys_out_of_bounds_are_refused(salted, salt, iterations, wrong):
    with pytest.raises(UnacceptableCredentialError, match=wrong):
        keys_from_salted(Mechanism.SCRAM_SHA_256, b"x" * salted, b"s" * salt, iterations)


names = st.text(min_size=1, max_size=40).filter(
    lambda text: "\0" not in text and text.isprintable()
)


@given(names, names, st.booleans())
def test_a_plain_message_says_a_name_and_a_password(user, password, acting):
    message = f"{user if acting else ''}\0{user}\0{password}".encode()
    assert parse_plain(message) == (user, password)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0secret\0",
        b"bob\0alice\0secret",
        b"\0al\xffice\0secret",
        b"\0alice\0" + b"x" * 8192,
    ],
)
def test_anything_else_is_no_plain_message(message):
    with pytest.raises(AuthenticationFailedError):
        parse_plain(message)
