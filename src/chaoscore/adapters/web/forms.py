"""What a form sent: bounded before it is read, in the one encoding that our forms use."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request

BODY_BYTES_MAX = 262_144
FIELDS_MAX = 400


class BadForm(Exception):
    """``status`` is the HTTP status of the refusal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Form:
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """The first value, empty when there is none."""
        return next((value for key, value in self.fields if key == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.fields if key == name)


async def read_form(request: Request) -> Form:
    """Raises ``BadForm``: too long, another content type, not UTF-8, too many fields."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadForm(415, "a form is expected here")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:12]) > BODY_BYTES_MAX:
        raise BadForm(413, f"the form has more than {BODY_BYTES_MAX} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise BadForm(413, f"the form has more than {BODY_BYTES_MAX} bytes")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise BadForm(400, "the form cannot be understood") from None
    return Form(tuple((key, value.replace("\r\n", "\n")) for key, value in pairs))
