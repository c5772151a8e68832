"""``fs.read_text``: one UTF-8 text file, whole, with its lines.

The gate stands above it, ``confine`` below.
"""

from __future__ import annotations

import asyncio

from chaoscore.adapters.capabilities.fs.confine import Confinement
from chaoscore.adapters.capabilities.fs.names import PATH_CHARS_MAX
from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.domain.capability import Annotations, Capability, Sink
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject

NAME = "fs.read_text"
NOT_TEXT = "FS_NOT_TEXT"
TOO_LARGE = "FS_TOO_LARGE"


def provide(confinement: Confinement, options: FsOptions) -> Provided:
    async def read_text(arguments: JsonObject, _: HandlerContext) -> Json:
        return await asyncio.to_thread(_read, str(arguments["path"]), confinement, options)

    return Provided(_capability(confinement, options), read_text)


def _capability(confinement: Confinement, options: FsOptions) -> Capability:
    return Capability(
        name=NAME,
        description=(
            "Read a UTF-8 text file from the folders the operator opened: its text and its lines. Symbolic links, "
            f"binary files, files above {options.read_bytes_max} bytes and protected names (.git, .env*, the system's "
            "own data) are refused."
        ),
        risk="low",
        input_schema={
            "type": "object",
            "required": ["path"],
            "additionalProperties": False,
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": PATH_CHARS_MAX,
                    "description": "a file; relative to the first open folder, or absolute within any",
                }
            },
        },
        output_schema={
            "type": "object",
            "required": ["path", "text", "lines"],
            "additionalProperties": False,
            "properties": {
                "path": {"type": "string", "description": "the file, as fs.* takes it back"},
                "text": {"type": "string", "description": "the whole text, line ends unchanged"},
                "lines": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "the text line by line, without line ends; a last line may lack its line end",
                },
            },
        },
        annotations=Annotations(read_only=True, idempotent=True, destructive=False, open_world=False),
        untrusted_output=True,
        sinks=(Sink("/path", "path"),),
        builtin=True,
        scope={"roots": list(confinement.roots)},
    )


def _read(path: str, confinement: Confinement, options: FsOptions) -> dict[str, Json]:
    place = confinement.locate(path)
    content = confinement.read(place, options.read_bytes_max)
    if content is None:
        most = options.read_bytes_max
        raise NotPerformed(f"{place.shown!r} has more than {most} bytes; read a smaller file", code=TOO_LARGE)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotPerformed(f"{place.shown!r} is not UTF-8 text (byte {error.start})", code=NOT_TEXT) from None
    return {"path": place.shown, "text": text, "lines": list(lines_of(text))}


def lines_of(text: str) -> list[str]:
    """Lines as editors count them: LF or CRLF ends one, nothing follows the last end, a byte order mark is no text."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
