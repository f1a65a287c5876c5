from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.guarded import guarded_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.guarded import GuardedServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServer]:
    with guarded_server(
        tmp_path_factory.mktemp("guarded"), "--tracing-sampling=1", hides=True
    ) as server:
        yield server
