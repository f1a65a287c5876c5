"""`module:app`, and what is said when it is not there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from goqueue.worker.errors import AppNotFoundError
from goqueue.worker.loading import load_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULES = {
    "shop_tasks": "import goqueue\napp = goqueue.App('shop')\nmain = app\nname = 'shop'\n"
    "@app.task\ndef pack(): ...\n",
    "empty_tasks": "import goqueue\napp = goqueue.App('shop')\n",
    "split_tasks": "import goqueue\napp = goqueue.App('shop', include=['split_more'])\n",
    "split_more": "from split_tasks import app\n@app.task\ndef more(): ...\n",
    "split_lost": "import goqueue\napp = goqueue.App('shop', include=['nowhere_more'])\n",
    "broken_tasks": "import nowhere_imported\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("target", ["shop_tasks:app", "shop_tasks:main", "shop_tasks"])
def test_an_app_is_found_in_the_working_directory(target: str) -> None:
    assert list(load_app(target).tasks) == ["pack"]


def test_tasks_may_be_in_other_modules() -> None:
    assert list(load_app("split_tasks:app").tasks) == ["more"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("nowhere:app", "there is no module 'nowhere'; expected MODULE:APP"),
        ("shop_tasks.more:app", "there is no module 'shop_tasks.more'"),
        ("", "expected MODULE:APP"),
        (":app", "expected MODULE:APP"),
        ("shop_tasks:application", "shop_tasks:application does not exist; did you mean"),
        ("shop_tasks:name", "shop_tasks:name is a str, not an App; did you mean shop_tasks:app"),
        ("empty_tasks:app", "has no tasks: decorate a function"),
        ("split_lost:app", "include of split_lost:app: there is no module 'nowhere_more'"),
    ],
)
def test_what_is_not_there_is_named(target: str, text: str) -> None:
    with pytest.raises(AppNotFoundError) as caught:
        load_app(target)
    assert text in str(caught.value)


def test_an_error_inside_of_a_module_is_not_hidden() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere_imported"):
        load_app("broken_tasks:app")
