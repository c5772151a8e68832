"""A client that disconnects in the middle of a run: the effect in flight is finished, the next one is not begun."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.app.harness import write_policy
from tests.mcp.support import HttpServer, call
from tests.mcp.test_kernel_surface import http_product


class Site:
    """Two pages; the first is held back until the test lets it go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        site = self

        class Pages(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                if self.path == "/first":
                    site.begun.set()
                    site.go.wait(20)
                body = b"page"
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextmanager
def site() -> Iterator[Site]:
    pages = Site()
    try:
        yield pages
    finally:
        pages.go.set()
        pages.server.shutdown()
        pages.server.server_close()


def test_a_client_that_disconnects_pauses_the_run_and_finds_it_again(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with site() as pages:
        address = f"127.0.0.1:{pages.port}"
        policy = write_policy(tmp_path, httpAllowedDomains=["127.0.0.1"], httpAllowPrivate=[address])
        with http_product(tmp_path, CHAOS_CORE_POLICY_PATH=str(policy)) as url:
            port = urlsplit(url).port
            assert port is not None
            server = HttpServer.__new__(HttpServer)
            server.port = port
            session = server.open_session()
            steps = [
                {"id": "s1", "capability": "http.request", "arguments": {"url": f"http://{address}/first"}},
                {
                    "id": "s2",
                    "capability": "http.request",
                    "arguments": {"url": f"http://{address}/second"},
                    "after": ["s1"],
                },
            ]
            planned = server.tool(session, "chaoscore_plan", {"steps": steps})
            plan = planned["data"]["plan_id"]
            connection = server.start(call("chaoscore_execute", {"plan_id": plan}), session)
            assert pages.begun.wait(20)
            connection.close()

            def seen() -> dict[str, object]:
                answer = server.tool(session, "chaoscore_inspect", {"what": "run", "plan_id": plan})
                return {s["id"]: s["state"] for s in answer["data"]["steps"]} | {"moving": answer["data"]["in_motion"]}

            for _ in range(10):  # the closed socket is noticed before requests that come after it
                assert seen()["moving"] is True
            pages.go.set()
            deadline = time.monotonic() + 20
            while seen() != {"s1": "succeeded", "s2": "pending", "moving": False}:
                assert time.monotonic() < deadline, seen()
            assert pages.asked == ["/first"]
            answer = server.tool(session, "chaoscore_execute", {"plan_id": plan})
            assert answer["status"] == "ACHIEVED"
            assert pages.asked == ["/first", "/second"]
