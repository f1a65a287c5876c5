"""The blocking client is derived from the async one: signatures, docstrings and results."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client.async_client import AsyncClient
from goqueue.client.consuming.consumer import AsyncConsumer
from goqueue.client.errors import ClientClosedError
from goqueue.client.queues.queue import AsyncQueue
from goqueue.client.sync.blocking import BlockingBlock, LoopThread, blocking, wrapping
from goqueue.client.sync.client import Client
from goqueue.client.sync.consumer import Consumer
from goqueue.client.sync.queue import Queue
from goqueue.client.sync.transactions import Transaction
from goqueue.client.transactions import AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = [
    (Client, AsyncClient),
    (Consumer, AsyncConsumer),
    (Queue, AsyncQueue),
    (Transaction, AsyncTransaction),
]
ONLY_ON_ASYNCIO = {
    (Client, "producer"),
    (Consumer, "take"),
    (Consumer, "taken"),
    (Consumer, "wait"),
    (Consumer, "has_news"),
    (Consumer, "group"),
    (Consumer, "member_id"),
    (Consumer, "auto_commits"),
    (Queue, "process"),
    (Queue, "session"),
    (Transaction, "sender"),
}


def public(kind):
    return {name: each for name, each in vars(kind).items() if not name.startswith("_")}


def parameters(method):
    return [each.replace(annotation="") for each in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize(("kind", "source"), PAIRS)
def test_everything_that_the_async_class_offers_is_there_without_asyncio(kind, source):
    missing = {(kind, name) for name in public(source)} - {(kind, name) for name in public(kind)}
    assert missing <= ONLY_ON_ASYNCIO


@pytest.mark.parametrize(("kind", "source"), PAIRS)
def test_both_take_the_same_parameters_and_have_a_docstring(kind, source):
    for name, method in public(kind).items():
        original = public(source).get(name)
        if inspect.isfunction(original) and name != "settle":
            assert parameters(method) == parameters(original), name
            assert method.__doc__


class AsyncCounter:
    def __init__(self):
        self.open = False
        self.ended_with = None

    async def __aenter__(self):
        self.open = True
        return self

    async def __aexit__(self, kind, *_exc):
        self.ended_with = kind

    async def add(self, one: int, *, two: int = 2) -> int:
        """Add two numbers."""
        await asyncio.sleep(0)
        if one < 0:
            raise ValueError("below zero")
        return one + two

    def copy(self) -> AsyncCounter:
        """Another one."""
        return AsyncCounter()


class Counter(BlockingBlock[AsyncCounter]):
    add = blocking(AsyncCounter.add)
    copy: Callable[..., Any]


Counter.copy = wrapping(Counter, AsyncCounter.copy)


@pytest.fixture
def thread():
    thread = LoopThread()
    yield thread
    thread.stop()


def test_a_blocking_method_returns_and_raises_what_the_async_one_does(thread):
    counter = Counter(thread, AsyncCounter())
    assert counter.add(1, two=3) == 4
    with pytest.raises(ValueError, match="below zero"):
        counter.add(-1)
    assert isinstance(counter.copy(), Counter)


def test_help_shows_the_signature_and_the_result(thread):
    assert str(inspect.signature(Counter.add)) == "(self, one: 'int', *, two: 'int' = 2) -> 'int'"
    assert Counter.add.__doc__ == "Add two numbers."
    assert inspect.signature(Client.queue).return_annotation is Queue
    assert not inspect.iscoroutinefunction(Counter.add)


def test_a_block_begins_and_ends_as_the_async_one(thread):
    inner = AsyncCounter()
    with Counter(thread, inner):
        assert inner.open
    assert inner.ended_with is None
    with suppress(KeyError), Counter(thread, inner):
        raise KeyError
    assert inner.ended_with is KeyError


def test_a_method_of_a_closed_client_is_refused():
    thread = LoopThread()
    thread.stop()
    with pytest.raises(ClientClosedError):
        Counter(thread, AsyncCounter()).add(1)
