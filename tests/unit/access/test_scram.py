from __future__ import annotations

import base64

import pytest
from hypothesis import example, given, settings, strategies as st

from goqueue.access.credentials import Decoys
from goqueue.access.keys import SCRAM_HASHES, Mechanism, keys_from_password
from goqueue.access.scram import ScramLogin, ScramState
from goqueue.model.errors import AuthenticationFailedError
from support.effort import examples
from unit.access.scram_client import ScramClient

SALT = b"a salt of some bytes"
KEYS = {
    mechanism: {
        (user, password): keys_from_password(mechanism, password, SALT)
        for user, password in [
            ("alice", "wonderland"),
            ("zoë,=✓", "pässword"),
            ("=2C=3D,", "=,="),
        ]
    }
    for mechanism in SCRAM_HASHES
}
PEOPLE = sorted(KEYS[Mechanism.SCRAM_SHA_256])
NOBODY = Decoys(b"secret")

# RFC 7677, section 3
RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

mechanisms = st.sampled_from(list(SCRAM_HASHES))
people = st.sampled_from(PEOPLE)
nonces = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","))


def login_of(mechanism=Mechanism.SCRAM_SHA_256, nonce="server") -> ScramLogin:
    def find(name):
        found = [keys for (user, _), keys in KEYS[mechanism].items() if user == name]
        return found[0] if found else NOBODY.keys(name, mechanism)

    return ScramLogin(mechanism, nonce, find)


def client_of(mechanism=Mechanism.SCRAM_SHA_256, user="alice", password="wonderland", nonce="c"):
    return ScramClient(SCRAM_HASHES[mechanism], user, password, nonce)


def rfc_login() -> ScramLogin:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = keys_from_password(Mechanism.SCRAM_SHA_256, "pencil", salt)
    return ScramLogin(Mechanism.SCRAM_SHA_256, RFC_NONCE, lambda name: {"user": keys}[name])


def test_the_exchange_of_rfc_7677_goes_byte_for_byte():
    login = rfc_login()
    assert login.step(RFC_FIRST) == RFC_CHALLENGE
    assert login.step(RFC_FINAL) == RFC_SIGNATURE
    assert login.state is ScramState.PROVEN
    assert login.user == "user"


@settings(max_examples=examples(40))
@given(mechanisms, people, nonces.filter(len), nonces)
def test_whoever_knows_the_password_gets_in_and_can_trust_the_server(mechanism, who, mine, ours):
    user, password = who
    login, client = login_of(mechanism, ours), client_of(mechanism, user, password, mine)
    challenge = login.step(client.first())
    assert challenge.startswith(f"r={mine}{ours},".encode())
    assert client.trusts(login.step(client.final(challenge)))
    assert (login.state, login.user) == (ScramState.PROVEN, user)


@settings(max_examples=examples(40))
@given(mechanisms, people, st.text(max_size=20))
def test_no_other_password_gets_in(mechanism, who, guess):
    user, password = who
    if guess.encode("utf-8", "replace") == password.encode():
        return
    client = client_of(mechanism, user, guess.encode("utf-8", "replace").decode())
    login = login_of(mechanism)
    with pytest.raises(AuthenticationFailedError):
        login.step(client.final(login.step(client.first())))
    assert login.state is ScramState.FAILED


@settings(max_examples=examples(100))
@given(st.integers(0, len(RFC_FINAL) - 1), st.integers(1, 255))
@example(len(RFC_FINAL) - 2, 2)  # bits of the last character that Base64 does not use
def test_a_final_message_with_one_byte_changed_never_gets_in(place, flip):
    login = rfc_login()
    login.step(RFC_FIRST)
    changed = bytearray(RFC_FINAL)
    changed[place] ^= flip
    with pytest.raises(AuthenticationFailedError):
        login.step(bytes(changed))


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))
)
@example(b"")
@example(b"n,,n=,r=x")
@example(b"n,,n=alice,r=")
@example(b"n,,n=alice")
@example(b"n=alice,r=x")
@example(b"p=tls-unique,,n=alice,r=x")
@example(b"n,,m=must,n=alice,r=x")
@example(b"n,a=bob,n=alice,r=x")
@example(b"n,,n=ali=41ce,r=x")
@example(b"n,,n=al\0ice,r=x")
@example(b"n,,n=alice,r=x y")
@example(b"\xff,,n=alice,r=x")
def test_anything_but_a_first_message_ends_the_login(message):
    login = login_of()
    with pytest.raises(AuthenticationFailedError):
        login.step(message)
    assert login.state is ScramState.FAILED
    with pytest.raises(AuthenticationFailedError):
        login.step(client_of().first())


@pytest.mark.parametrize("cut", range(len(RFC_FINAL)))
def test_a_truncated_final_message_never_gets_in(cut):
    login = rfc_login()
    login.step(RFC_FIRST)
    with pytest.raises(AuthenticationFailedError):
        login.step(RFC_FINAL[:cut])


@pytest.mark.parametrize("prefix", [b"n,,n=", b"n,,n=alice,r=", b"n,,n=alice,r=x,e="])
def test_a_huge_message_is_refused_before_it_is_read(prefix):
    login = login_of()
    with pytest.raises(AuthenticationFailedError, match="over the limit"):
        login.step(prefix + b"x" * 8192)


def test_a_proof_cannot_be_played_again_to_a_server_with_another_nonce():
    client, login = client_of(), login_of(nonce="one")
    final = client.final(login.step(client.first()))
    login.step(final)
    other = login_of(nonce="two")
    other.step(client.first())
    with pytest.raises(AuthenticationFailedError):
        other.step(final)


def test_the_header_of_the_final_message_must_be_that_of_the_first():
    client, login = client_of(), login_of()
    with pytest.raises(AuthenticationFailedError):
        login.step(client.final(login.step(client.first()), header=b"y,,"))


def test_messages_out_of_order_end_the_login():
    client, login = client_of(), login_of()
    challenge = login.step(client.first())
    with pytest.raises(AuthenticationFailedError):
        login.step(client.first())
    with pytest.raises(AuthenticationFailedError):
        login.step(client.final(challenge))

    done = login_of()
    final = client.final(done.step(client.first()))
    done.step(final)
    with pytest.raises(AuthenticationFailedError):
        done.step(final)


def test_extensions_that_are_not_mandatory_are_signed_and_ignored():
    client, login = client_of(), login_of()
    client.bare += ",tokenauth=true"
    assert client.trusts(login.step(client.final(login.step(client.first()))))


def test_acting_as_oneself_is_no_other_user():
    client, login = client_of(), login_of()
    challenge = login.step(b"n,a=alice," + client.bare.encode())
    login.step(client.final(challenge, header=b"n,a=alice,"))
    assert login.state is ScramState.PROVEN


@pytest.mark.parametrize("mechanism", list(SCRAM_HASHES))
def test_an_unknown_user_is_answered_like_a_known_one_with_a_wrong_password(mechanism):
    answers, errors = [], []
    for user in ("alice", "nobody"):
        login, client = login_of(mechanism), client_of(mechanism, user, "wrong")
        answers.append(login.step(client.first()).decode())
        with pytest.raises(AuthenticationFailedError) as caught:
            login.step(client.final(answers[-1].encode()))
        errors.append(str(caught.value).replace(user, "?"))
    known, unknown = ([part[:2] for part in answer.split(",")] for answer in answers)
    assert known == unknown == ["r=", "s=", "i="]
    assert answers[0].rpartition(",")[2] == answers[1].rpartition(",")[2]
    assert errors[0] == errors[1]
