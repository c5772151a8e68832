"""Real servers on loopback for ``http.request``: each answers as a script says, and notes what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

Script = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Gets the request's path and writes whatever it wants to."""


@dataclass
class Server:
    """``requests`` are the heads of all requests as they arrived; ``left`` is set when a client went before its answer
    was complete."""

    port: int
    requests: list[str] = field(default_factory=list)
    connections: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[Server]:
    server = Server(0)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            server.requests.append(head)
            answering = asyncio.ensure_future(script(head.split(" ", 2)[1], writer))
            leaving = asyncio.ensure_future(reader.read())
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                server.left.set()
            for task in (answering, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError, ConnectionError, ssl.SSLError):
                    await task
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(handle, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def answer(body: bytes = b"", status: str = "200 OK", *headers: str) -> Script:
    """Always the same answer, with its length unless a header says otherwise."""

    async def script(_: str, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", *headers]
        if not any(line.lower().startswith(("content-length", "transfer-encoding")) for line in headers):
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    return script


def redirect(location: str, status: str = "302 Found") -> Script:
    return answer(b"", status, f"Location: {location}")


def routes(table: dict[str, Script]) -> Script:
    async def script(path: str, writer: asyncio.StreamWriter) -> None:
        await table[path](path, writer)

    return script


class Names:
    """A resolver whose answers are a list per name, one answer per question; the last one stays."""

    def __init__(self, answers: dict[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: list(lists) for name, lists in answers.items()}
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if host not in self._answers:
            raise OSError(f"{host} is unknown")
        lists = self._answers[host]
        return lists.pop(0) if len(lists) > 1 else lists[0]


def certificate(folder: Path, host: str, days: int = 1) -> tuple[ssl.SSLContext, Path]:
    """A server context for ``host`` and the file of the authority that signed it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / f"{host}.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = folder / f"{host}.key"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    return context, pem
