"""What brokers do in tests of faults besides: stand still at a moment, tell what they wait for.

Python imports this module by itself in every process that has the folder on its path; the folder
named by `NODE_HOOKS_FOLDER` is where a test says and reads things.

- A file `armed`: the process stops (SIGSTOP) before it next sends elections of a controller to the
  metadata store, and `reached` says so. What the store answers afterwards is in `result`.
- `NODE_HOOKS_MISTAKE` names a mistake of `support.node_hooks.mistakes` that the broker makes.
- `NODE_HOOKS_VERSION`: the broker is of this version, and serves nothing that others forward.
- SIGUSR1: the stacks of all threads and tasks are appended to `stacks.txt`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER: Final = "NODE_HOOKS_FOLDER"
VERSION: Final = "NODE_HOOKS_VERSION"
ARMED, REACHED, RESULT, STACKS = "armed", "reached", "result", "stacks.txt"
_BROKER: Final = "goqueue.server.supervision.broker_child"


def _stop_before_elections(folder: Path) -> None:
    from goqueue.cluster.etcd.store import EtcdMetadataStore  # noqa: PLC0415 - of a broker only
    from goqueue.cluster.records import CONTROLLER, PARTITIONS  # noqa: PLC0415 - as above

    transact = EtcdMetadataStore.transact

    async def stopping(
        store: EtcdMetadataStore, conditions: Sequence[Any], operations: Sequence[Any]
    ) -> Any:
        decides = any(each.key == CONTROLLER for each in conditions)
        if not decides or not any(each.key.startswith(PARTITIONS) for each in operations):
            return await transact(store, conditions, operations)
        try:
            (folder / ARMED).rename(folder / REACHED)
        except OSError:
            return await transact(store, conditions, operations)
        os.kill(os.getpid(), signal.SIGSTOP)
        result = await transact(store, conditions, operations)
        (folder / RESULT).write_text(type(result).__name__)
        return result

    EtcdMetadataStore.transact = stopping  # type: ignore[assignment, method-assign]  # what the hook is


def _be_of_version(version: str) -> None:
    import goqueue  # noqa: PLC0415 - of a broker only
    from goqueue.protocols.kafka.registry import ApiKey, Registry  # noqa: PLC0415 - as above

    goqueue.__version__ = version
    add = Registry.add

    def adding(registry: Registry, family: object) -> None:
        add(registry, family)
        for key in (ApiKey.CALL_HTTP, ApiKey.CALL_GRPC):
            registry.endpoints.pop((key, 0), None)

    Registry.add = adding  # type: ignore[assignment, method-assign]  # what the hook is


def _tell_stacks(folder: Path) -> None:
    def tell(*_: object) -> None:
        with (folder / STACKS).open("a") as file:
            faulthandler.dump_traceback(file)
            for task in asyncio.all_tasks():
                print(f"\n{task!r}", file=file)
                # What is raised here would be raised in whatever the broker is doing.
                with suppress(Exception):
                    task.print_stack(file=file)

    signal.signal(signal.SIGUSR1, tell)


if FOLDER in os.environ and _BROKER in sys.orig_argv:
    _stop_before_elections(Path(os.environ[FOLDER]))
    _tell_stacks(Path(os.environ[FOLDER]))
    if mistake := os.environ.get("NODE_HOOKS_MISTAKE"):
        importlib.import_module("mistakes").ALL[mistake].plant()  # found beside this module
    if version := os.environ.get(VERSION):
        _be_of_version(version)
