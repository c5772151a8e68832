"""A raw stdio client for the benchmarks: no SDK on this side, so that only the server is measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHIPPED = [str(Path(sys.executable).with_name("chaos-core-mcp"))]
FIXTURE = [sys.executable, "-m", "tests.mcp.fixture_server", "stdio"]


class RawClient:
    """One server process and its pipes."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        self._id = 0

    def send(self, method: str, params: dict[str, Any] | None = None, *, notify: bool = False) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if not notify:
            self._id += 1
            message["id"] = self._id
        if params is not None:
            message["params"] = params
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended: {self.process.args!r}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SystemExit(f"the server refused: {answer['error']}")
        return answer

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.send(method, params)
        return self.receive()

    def initialize(self) -> None:
        self.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        )
        self.send("notifications/initialized", notify=True)

    def call_seconds(self, name: str, arguments: dict[str, Any], count: int) -> list[float]:
        """Wall seconds of each of ``count`` calls, one after the other."""
        out = []
        params = {"name": name, "arguments": arguments}
        for _ in range(count):
            began = time.perf_counter()
            answer = self.request("tools/call", params)
            out.append(time.perf_counter() - began)
            if answer["result"].get("isError"):
                raise SystemExit(f"the call failed: {answer['result']}")
        return out

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()
