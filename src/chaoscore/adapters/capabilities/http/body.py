"""From the chunks of an answer to bounded bytes and text.

``request`` stands above it. Every way in which a small answer can become a large value is bounded here: the bytes on
the wire and the bytes after decompression. What exceeds a bound is an error, never a shorter answer.
"""

from __future__ import annotations

import codecs
import zlib
from contextlib import aclosing
from dataclasses import dataclass

from chaoscore.adapters.capabilities.http.connect import PROTOCOL, Exchange
from chaoscore.domain.errors import CapabilityError

TOO_LARGE = "HTTP_TOO_LARGE"
ACCEPT_ENCODING = "gzip"
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
# Text codecs only: Python's registry also has compressors, and codecs whose cost grows faster than their input.
_CHARSETS = {
    "utf-8": "utf-8-sig",
    "utf8": "utf-8-sig",
    "us-ascii": "ascii",
    **{name: name for name in ("ascii", "utf-16", "utf-16le", "utf-16be", "big5", "gbk", "gb2312", "gb18030")},
    **{name: name for name in ("shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "koi8-r", "koi8-u", "macintosh")},
    **{f"iso-8859-{number}": f"iso-8859-{number}" for number in range(1, 17) if number != 12},
    **{f"windows-{number}": f"cp{number}" for number in (874, *range(1250, 1259))},
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True, slots=True)
class Text:
    """``exact`` is false when bytes could not be read in ``charset`` and U+FFFD stands in their place."""

    text: str
    charset: str
    exact: bool


async def read_body(exchange: Exchange, bytes_max: int) -> bytes:
    """The whole body, decompressed. Raises ``CapabilityError`` when it is larger than ``bytes_max`` on the wire or
    after decompression, cut off, or compressed in a way that was not asked for."""
    announced = exchange.header("content-length") or ""
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > bytes_max:
        raise _too_large(bytes_max)
    encoding = (exchange.header("content-encoding") or "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise CapabilityError(
            f"the answer is compressed with {encoding[:40]!r}; only gzip was asked for", code=PROTOCOL
        )
    body = _Plain() if encoding in ("", "identity") else _Inflated()
    on_wire = 0
    async with aclosing(exchange.chunks) as chunks:
        async for chunk in chunks:
            on_wire += len(chunk)
            if on_wire > bytes_max or not body.take(chunk, bytes_max):
                raise _too_large(bytes_max)
    return body.whole()


class _Plain:
    def __init__(self) -> None:
        self.body = bytearray()

    def take(self, chunk: bytes, bytes_max: int) -> bool:
        """False when there is more than ``bytes_max``."""
        self.body += chunk
        return len(self.body) <= bytes_max

    def whole(self) -> bytes:
        return bytes(self.body)


class _Inflated(_Plain):
    """Asks the decompressor for at most one byte more than fits, so a bomb costs no more than an honest answer."""

    def __init__(self) -> None:
        super().__init__()
        self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)

    def take(self, chunk: bytes, bytes_max: int) -> bool:
        while chunk:
            if self._inflater.eof:  # gzip may continue with another member
                self._inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
            try:
                self.body += self._inflater.decompress(chunk, bytes_max + 1 - len(self.body))
            except zlib.error:
                raise CapabilityError("the answer's compressed body is damaged", code=PROTOCOL) from None
            if len(self.body) > bytes_max:
                return False
            chunk = self._inflater.unconsumed_tail or self._inflater.unused_data
        return True

    def whole(self) -> bytes:
        if not self._inflater.eof:
            raise CapabilityError("the answer's compressed body is cut off", code=PROTOCOL)
        return bytes(self.body)


def decode_text(body: bytes, content_type: str) -> Text:
    """Read as a byte order mark or the header's ``charset`` says, as UTF-8 otherwise. Total."""
    charset = next((name for mark, name in _MARKS if body.startswith(mark)), None) or _charset(content_type)
    codec = _CHARSETS.get(charset)
    if codec is None:
        charset, codec = "utf-8", "utf-8-sig"
    try:
        return Text(body.decode(codec), charset, True)
    except UnicodeDecodeError:
        return Text(body.decode(codec, "replace"), charset, False)


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower()
    return "utf-8"


def _too_large(bytes_max: int) -> CapabilityError:
    return CapabilityError(f"the answer's body exceeds {bytes_max} bytes; ask for a smaller resource", code=TOO_LARGE)
