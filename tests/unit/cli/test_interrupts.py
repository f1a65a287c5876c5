"""Ctrl-C ends a command at whichever moment it comes."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from goqueue.cli.api import Api
from goqueue.cli.contexts import Target


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_args: object) -> None:
        return


def test_a_ctrl_c_while_a_response_is_closed_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.handle_request, daemon=True)
    thread.start()

    def interrupted(_response: http.client.HTTPResponse) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with Api(Target(f"http://127.0.0.1:{server.server_port}", "the test")) as api:
        monkeypatch.setattr(http.client.HTTPResponse, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            api.text("/metrics")
    thread.join(60)
    server.server_close()
