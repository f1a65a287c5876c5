"""The TypeScript client, built from its source, against a live broker that asks for a key.

What it does is tested in `clients/typescript/test`, with Node's own test runner.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.console_web import find_npm
from support.server import ServerProcess, make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "clients" / "typescript"
KEY = "gq_" + "5" * 64
NODE_S = 280


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with its development packages, compiled."""
    npm = find_npm()
    copy = tmp_path_factory.mktemp("typescript") / "package"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    installed = SOURCE / "node_modules" / ".package-lock.json"
    lock = SOURCE / "package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        (copy / "node_modules").symlink_to(SOURCE / "node_modules")
    else:
        subprocess.run([npm, "ci", "--silent"], cwd=copy, check=True, timeout=100)
    subprocess.run([npm, "run", "--silent", "build"], cwd=copy, check=True, timeout=NODE_S)
    return copy


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A broker that asks everyone for a key."""
    flags = ("--auth-enabled", "--auth-max-login-delay", "0s")
    data_dir = tmp_path_factory.mktemp("guarded") / "data"
    server = make_server(data_dir, *flags, environment={"GOQUEUE_API_ROOT_KEY": KEY})
    server.start()
    yield server
    server.close()


def run_node(package: Path, server: ServerProcess, *arguments: str, **environment: str) -> None:
    """Run Node in the package; what it says is shown when it fails."""
    given = {
        "GOQUEUE_TEST_URL": server.http_url,
        "GOQUEUE_TEST_KEY": KEY,
        "GOQUEUE_TEST_PAGE": str(ROOT / "docs" / "reference" / "typescript.md"),
    }
    done = subprocess.run(
        ["node", *arguments],
        cwd=package,
        env=os.environ | given | environment,
        capture_output=True,
        text=True,
        timeout=NODE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def restart_url(guarded: ServerProcess) -> Iterator[str]:
    """A POST to this URL kills the broker and starts it again."""

    class Restart(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            guarded.kill()
            guarded.start()
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class calls it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Restart) as control:
        threading.Thread(target=control.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{control.server_port}"
        control.shutdown()


def test_the_committed_types_are_those_of_the_server(package: Path, guarded: ServerProcess) -> None:
    document = f"{guarded.http_url}/openapi.json"
    run_node(package, guarded, "scripts/generate-types.mjs", document, "--check")


def test_outdated_types_are_noticed(package: Path, guarded: ServerProcess) -> None:
    types = package / "src" / "api.ts"
    current = types.read_text(encoding="utf-8")
    types.write_text(current.replace("receipt_handle", "receipt"), encoding="utf-8")
    try:
        with pytest.raises(AssertionError, match="npm run types"):
            test_the_committed_types_are_those_of_the_server(package, guarded)
    finally:
        types.write_text(current, encoding="utf-8")


def test_the_client_does_what_its_tests_say(package: Path, guarded: ServerProcess) -> None:
    files = sorted(str(path.relative_to(package)) for path in package.glob("test/*.test.mjs"))
    assert len(files) >= 6
    run_node(package, guarded, "--test", "--test-concurrency=6", "--test-timeout=120000", *files)


def test_a_worker_and_a_consumer_lose_nothing_when_the_broker_is_killed(
    package: Path, guarded: ServerProcess, restart_url: str
) -> None:
    test = "test/restart/restart.test.mjs"
    run_node(package, guarded, "--test", test, GOQUEUE_TEST_CONTROL=restart_url)


def test_the_package_has_what_users_need_and_nothing_else(package: Path) -> None:
    pack = [find_npm(), "pack", "--dry-run", "--json", "--ignore-scripts"]
    done = subprocess.run(
        pack, cwd=package, check=True, capture_output=True, text=True, timeout=100
    )
    assert '"dist/index.js"' in done.stdout
    assert '"dist/index.d.ts"' in done.stdout
    assert '"README.md"' in done.stdout
    assert '"LICENSE"' in done.stdout
    assert "test/" not in done.stdout
    lock = (SOURCE / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
