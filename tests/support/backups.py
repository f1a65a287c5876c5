"""Backups over HTTP, for tests: begin a job, wait for it."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import quote

from support.http_api import HttpApi

WAIT_S: Final = 120.0


class BackupApi:
    """The backups of one broker at one destination."""

    def __init__(self, http_url: str, destination: str, **key: str) -> None:
        self.api = HttpApi(int(http_url.rsplit(":", 1)[1]))
        self.destination = destination
        self.key = key

    def close(self) -> None:
        self.api.close()

    def create(self, **body: Any) -> dict[str, Any]:
        return self.job("/admin/backup", body)

    def verify(self, backup_id: str = "latest", **body: Any) -> dict[str, Any]:
        return self.job(f"/admin/backup/{backup_id}/verify", body)

    def restore(self, backup_id: str = "latest", **body: Any) -> dict[str, Any]:
        return self.job(f"/admin/backup/{backup_id}/restore", body)

    def list(self) -> list[dict[str, Any]]:
        answer = self.api.ask("GET", f"/admin/backup?destination={quote(self.destination)}")
        assert answer.status == 200, answer
        found: list[dict[str, Any]] = answer.json["backups"]
        return found

    def begin(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Begin a job, and return what is told of it at once."""
        asked = {"destination": self.destination, **self.key, **body}
        answer = self.api.ask("POST", path, asked)
        assert answer.status == 202, answer
        started: dict[str, Any] = answer.json
        return started

    def job(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Begin a job and wait for its end; returns it as it is then."""
        return self.ended(self.begin(path, body)["id"])

    def ended(self, job_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = self.api.ask("GET", f"/admin/backup/{job_id}")
            assert answer.status == 200, answer
            job: dict[str, Any] = answer.json["job"]
            if job["state"] != "running":
                return job
            assert time.monotonic() < deadline, job
            time.sleep(0.05)

    def done(self, job: dict[str, Any]) -> dict[str, Any]:
        """What came of a job that was to succeed."""
        assert job["state"] == "done", job
        result: dict[str, Any] = job["result"]
        return result
