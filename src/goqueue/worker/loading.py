"""From `module:app` to the app."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.worker.app import App
from goqueue.worker.errors import AppNotFoundError

if TYPE_CHECKING:
    from types import ModuleType


def load_app(target: str) -> App:
    """Import an app and the modules that it includes.

    Modules are also looked for in the working directory. An error inside a module is not caught.

    Raises:
        AppNotFoundError: there is no such module, it has no such app, or the app has no tasks.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module_name, _, name = target.partition(":")
    app = _app_in(_module(module_name, target), name or "app")
    for each in app.include:
        _module(each, f"include of {target}")
    if not app.tasks:
        raise AppNotFoundError(
            f"{target} has no tasks: decorate a function with @app.task, or name the modules that "
            "have some in App(include=[...])"
        )
    return app


def _module(name: str, source: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there, and one that it imports is not
        raise AppNotFoundError(
            f"{source}: there is no module {error.name!r}; expected MODULE:APP such as tasks:app, "
            f"found from {Path.cwd()} or installed"
        ) from None
    except ValueError:  # an empty name
        raise AppNotFoundError(f"{source!r}: expected MODULE:APP such as tasks:app") from None


def _app_in(module: ModuleType, name: str) -> App:
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    said = f"is a {type(found).__name__}, not an App" if hasattr(module, name) else "does not exist"
    apps = [
        f"{module.__name__}:{key}" for key, each in vars(module).items() if isinstance(each, App)
    ]
    known = f"; did you mean {' or '.join(apps)}?" if apps else ""
    raise AppNotFoundError(f"{module.__name__}:{name} {said}{known}")
