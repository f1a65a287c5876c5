"""What a server says about who can reach it, and when it refuses to start."""

from __future__ import annotations

import json
import subprocess
import urllib.request

from support.server import ServerProcess


def test_on_loopback_without_users_one_line_says_that_all_is_open(tmp_path) -> None:
    server = ServerProcess(tmp_path / "data")
    try:
        server.start()
        server.wait_for_line("no logins are required")
    finally:
        server.close()
    assert sum("no logins are required" in line for line in server.log) == 1


def test_another_address_is_refused_unless_it_is_said_aloud(tmp_path) -> None:
    server = ServerProcess(tmp_path / "data", "--listeners-http", "0.0.0.0:8080")
    refused = subprocess.run(
        server.command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=server.environment,
    )
    assert refused.returncode != 0
    assert "--insecure does without" in refused.stderr
    server.flags = (*server.flags, "--insecure")
    try:
        server.start()
        line = server.wait_for_line("--insecure: ")
        assert "without logins and TLS" in line
        with urllib.request.urlopen(f"{server.http_url}/overview", timeout=60) as answer:
            found = json.loads(answer.read())["attention"][0]
        assert found["severity"] == "critical"
        assert "--insecure" in found["title"]
    finally:
        server.close()
