"""Digests that stand in files: the capsule's content hash (ECMAScript canonical JSON, shared with every peer) and the
digest a response is bound to (our canonical form, ``domain.json``)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Literal

from chaoscore.domain.json import Json, JsonObject, is_array, is_object

_SURROGATE = re.compile("[\ud800-\udfff]")


def js_number(value: float) -> str:
    """A number as ECMAScript prints a double. Integers beyond 2^53 are rounded to one first."""
    if isinstance(value, int):
        if abs(value) <= 2**53:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if count > 1 else ''}e{power}"


def js_string(value: str) -> str:
    """A string as ``JSON.stringify`` writes it: only a lone surrogate is escaped beyond what JSON demands."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", json.dumps(value, ensure_ascii=False))


def js_canonical(value: Json) -> str:
    """Compact JSON with keys sorted by UTF-16 code units, printed as ECMAScript would."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return js_number(value)
    if isinstance(value, str):
        return js_string(value)
    if is_array(value):
        return "[" + ",".join(js_canonical(item) for item in value) + "]"
    if is_object(value):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{js_string(key)}:{js_canonical(value[key])}" for key in keys) + "}"
    raise TypeError(f"{type(value).__name__} is not JSON")


def content_hash(capsule: JsonObject) -> str:
    """64 lower-case hex digits over the capsule without its own ``metadata.contentHash``."""
    metadata = capsule.get("metadata", {})
    bare = {k: v for k, v in metadata.items() if k != "contentHash"} if is_object(metadata) else metadata
    return hashlib.sha256(js_canonical({**capsule, "metadata": bare}).encode("utf-8")).hexdigest()


def verify_content(capsule: JsonObject) -> Literal["valid", "tampered", "missing"]:
    metadata = capsule.get("metadata")
    stored = metadata.get("contentHash") if is_object(metadata) else None
    if not isinstance(stored, str) or not stored:
        return "missing"
    return "valid" if stored == content_hash(capsule) else "tampered"
