"""JSON that somebody typed or wrote into a file: read strictly, with words for whoever has to mend it."""

from __future__ import annotations

import json
from typing import NoReturn

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json


def parse_json(text: str, name: str) -> Json:
    """``name`` says whose it is. Raises ``InvalidInput``: a key given twice, NaN and infinities are faults too."""

    def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InvalidInput(f"{name} has the key {twice!r} twice in one object", key=twice)
        return made

    def refuse(constant: str) -> NoReturn:
        raise InvalidInput(f"{name} has the number {constant}, which JSON does not know")

    try:
        value: Json = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"{name} is not JSON: {error.msg[:1].lower()}{error.msg[1:]} ({place})") from None
    except (RecursionError, ValueError):
        raise InvalidInput(f"{name} is nested too deeply or has a number too long to read") from None
    return value
