from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.releases import build_release

if TYPE_CHECKING:
    from support.releases import Released


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Released:
    """A wheel and a source distribution, as they are released."""
    return build_release(tmp_path_factory.mktemp("release"))
