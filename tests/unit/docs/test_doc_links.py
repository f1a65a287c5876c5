"""Links of the documentation lead somewhere."""

from __future__ import annotations

import http.server
import threading

import pytest

from support.doc_links import broken_inside, broken_to_site, dead, external


def test_every_link_between_pages_leads_to_a_page_and_a_heading() -> None:
    assert broken_inside() == []


def test_every_link_to_the_site_leads_to_a_page_of_its_newest_version() -> None:
    assert broken_to_site() == []


def test_external_links_are_found_for_the_nightly_check() -> None:
    assert len(external()) > 10
    assert all(link.startswith("http") for link in external())


@pytest.mark.parametrize(("status", "is_dead"), [(200, False), (404, True), (403, False)])
def test_a_link_is_dead_when_its_site_says_so(status: int, is_dead: bool) -> None:
    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        assert bool(dead(f"http://127.0.0.1:{site.server_port}/")) is is_dead
        site.shutdown()
