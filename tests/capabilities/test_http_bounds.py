"""``http.request`` against servers that send too much, too slowly, or what is not HTTP."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.domain.errors import NotPerformed
from tests.capabilities.fetching import failure, fetch, refusal, towards
from tests.capabilities.servers import answer, routes, serving
from tests.capabilities.support import desk

SMALL = HttpOptions(body_bytes_max=100_000, total_seconds=0.6)


def chunked(pieces: int, piece: bytes, *headers: str) -> Callable[[str, asyncio.StreamWriter], Awaitable[None]]:
    async def script(_: str, writer: asyncio.StreamWriter) -> None:
        lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        for _number in range(pieces):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    return script


def test_compressed_answers_are_read_and_bombs_are_not() -> None:
    async def scenario() -> None:
        honest = gzip.compress(b"hello " * 1000)
        bomb = gzip.compress(b"\0" * 50_000_000, 9)
        nested = gzip.compress(bomb)
        assert len(bomb) < 100_000 and len(nested) < 10_000
        table = {
            "/honest": answer(honest, "200 OK", "Content-Encoding: gzip"),
            "/zlib": answer(zlib.compress(b"z"), "200 OK", "Content-Encoding: deflate"),
            "/twice": answer(gzip.compress(b"a") + gzip.compress(b"b"), "200 OK", "Content-Encoding: gzip"),
            "/bomb": answer(bomb, "200 OK", "Content-Encoding: gzip"),
            "/nested": answer(nested, "200 OK", "Content-Encoding: gzip, gzip"),
            "/short": answer(honest[:-10], "200 OK", "Content-Encoding: gzip"),
            "/damaged": answer(honest[:20] + b"xxxx" + honest[24:], "200 OK", "Content-Encoding: gzip"),
            "/brotli": answer(b"x", "200 OK", "Content-Encoding: br"),
            "/many": answer(gzip.compress(b"") * 10_000, "200 OK", "Content-Encoding: gzip"),
        }
        async with serving(routes(table)) as server:
            fetcher = towards(server, HttpOptions())
            assert (await fetch(fetcher, server.url("/honest")))["bytes"] == 6000
            assert (await fetch(fetcher, server.url("/zlib")))["body"] == "z"
            assert (await fetch(fetcher, server.url("/twice")))["body"] == "ab"
            assert (await fetch(fetcher, server.url("/many")))["body"] == ""
            assert (await failure(fetcher, server.url("/bomb"))).code == "HTTP_TOO_LARGE"
            for path in ("/nested", "/short", "/damaged", "/brotli"):
                assert (await failure(fetcher, server.url(path))).code == "HTTP_PROTOCOL", path

    asyncio.run(scenario())


def test_a_bomb_costs_no_more_memory_than_an_honest_answer() -> None:
    import tracemalloc

    async def scenario() -> None:
        bomb = gzip.compress(b"\0" * 50_000_000, 9)
        async with serving(answer(bomb, "200 OK", "Content-Encoding: gzip")) as server:
            fetcher = towards(server)
            await failure(fetcher, server.url())  # what is imported and cached once does not count
            tracemalloc.start()
            try:
                assert (await failure(fetcher, server.url())).code == "HTTP_TOO_LARGE"
                assert tracemalloc.get_traced_memory()[1] < 10_000_000
            finally:
                tracemalloc.stop()

    asyncio.run(scenario())


def test_a_body_of_fifty_megabytes_is_not_read() -> None:
    async def scenario() -> None:
        announced = answer(b"", "200 OK", "Content-Length: 52428800")
        table = {
            "/announced": announced,
            "/chunked": chunked(800, b"x" * 65_536),
            "/endless": answer(b"x" * 52_428_800, "200 OK", "Connection: close", "Content-Length: 52428800"),
            "/lying": answer(b"", "200 OK", "Content-Length: 99999999999999999999999999999999"),
            "/exact": answer(b"x" * 100_000),
            "/more": answer(b"x" * 100_001),
        }
        async with serving(routes(table)) as server:
            fetcher = towards(server, HttpOptions(body_bytes_max=100_000))
            assert (await fetch(fetcher, server.url("/exact")))["bytes"] == 100_000
            for path in ("/announced", "/chunked", "/endless", "/lying", "/more"):
                error = await failure(fetcher, server.url(path))
                assert error.code in ("HTTP_TOO_LARGE", "HTTP_PROTOCOL"), path
                assert not isinstance(error, NotPerformed)

    asyncio.run(scenario())


async def silent(_: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def dripping(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def dripping_head(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-A: b\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def forever_continuing(_: str, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("script", [silent, dripping, dripping_head, forever_continuing])
def test_a_server_that_takes_its_time_is_late_as_a_whole(
    script: Callable[[str, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    async def scenario() -> None:
        async with serving(script) as server:
            started = time.monotonic()
            error = await failure(towards(server, SMALL), server.url())
            assert time.monotonic() - started < 3.0
            assert error.code == "HTTP_TIMEOUT"
            assert not isinstance(error, NotPerformed)

    asyncio.run(scenario())


def test_time_spent_before_anything_was_sent_is_certain_to_have_done_nothing() -> None:
    async def scenario() -> None:
        async def never(host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

        assert (await refusal(desk(http=SMALL, resolver=never), "http://slow.test/")).code == "HTTP_TIMEOUT"

    asyncio.run(scenario())


def test_headers_are_bounded() -> None:
    async def scenario() -> None:
        table = {
            "/many": answer(b"", "200 OK", *(f"X-{number}: {'v' * 90}" for number in range(700))),
            "/one": answer(b"", "200 OK", f"X: {'v' * 200_000}"),
            "/fine": answer(b"", "200 OK", *(f"X-{number}: v" for number in range(100))),
        }
        async with serving(routes(table)) as server:
            assert (await fetch(towards(server), server.url("/fine")))["status"] == 200
            for path in ("/many", "/one"):
                assert (await failure(towards(server), server.url(path))).code == "HTTP_PROTOCOL"

    asyncio.run(scenario())


def raw(content: bytes) -> Callable[[str, asyncio.StreamWriter], Awaitable[None]]:
    async def script(_: str, writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return script


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not http\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
    ],
)
def test_an_answer_that_breaks_the_rules_is_an_error_without_the_servers_words(content: bytes) -> None:
    async def scenario() -> None:
        async with serving(raw(content)) as server:
            error = await failure(towards(server), server.url())
            assert error.code in ("HTTP_PROTOCOL", "HTTP_UNREACHABLE")
            assert not isinstance(error, NotPerformed)
            assert "abc" not in error.message and "OpenSSH" not in error.message

    asyncio.run(scenario())


def test_what_a_server_sends_after_its_answer_is_never_taken_for_an_answer() -> None:
    async def scenario() -> None:
        smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nSMUGGLED"
        table = {
            "/a": raw(b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n" + smuggled),
            "/b": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nreal" + smuggled),
        }
        async with serving(routes(table)) as server:
            assert (await fetch(towards(server), server.url("/a")))["body"] == "real"
            assert server.connections == 2

    asyncio.run(scenario())


def test_a_response_to_upgrade_or_without_a_body_ends() -> None:
    async def scenario() -> None:
        table = {
            "/upgrade": raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxxxx"),
            "/empty": answer(b"", "204 No Content"),
            "/hinted": raw(
                b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
            ),
        }
        async with serving(routes(table)) as server:
            upgrade = await failure(towards(server, SMALL), server.url("/upgrade"))
            assert upgrade.code == "HTTP_PROTOCOL"
            assert (await fetch(towards(server), server.url("/empty")))["status"] == 204
            assert (await fetch(towards(server), server.url("/hinted")))["body"] == "x"

    asyncio.run(scenario())


def test_a_cancelled_request_closes_its_connection() -> None:
    async def scenario() -> None:
        arrived = asyncio.Event()

        async def hanging(_: str, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await asyncio.Event().wait()

        async with serving(hanging) as server:
            task = asyncio.create_task(fetch(towards(server), server.url()))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.left.wait(), 5.0)

    asyncio.run(scenario())


def test_nothing_of_http_is_imported_until_a_request_is_made() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from chaoscore.adapters.capabilities import builtin_capabilities; "
        "from tests.capabilities.support import CountingIds; builtin_capabilities(ids=CountingIds()); "
        "print(sorted({'httpcore2', 'jmespath', 'anyio', 'h11', 'ssl'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert done.stdout.strip() in ("[]", "['ssl']")  # asyncio itself brings ssl


def test_atls_context_never_weakens() -> None:
    from chaoscore.adapters.capabilities.http.connect import tls_context

    context = tls_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
