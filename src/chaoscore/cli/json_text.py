"""JSON that somebody typed or wrote into a file: read strictly, with words for whoever has to mend it."""

from __future__ import annotations

import json
from typing import NoReturn

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import DuplicateKey, Json, unique_keys


def parse_json(text: str, name: str) -> Json:
    """``name`` says whose it is. Raises ``InvalidInput``: a key given twice, NaN and infinities are faults too."""

    def refuse(constant: str) -> NoReturn:
        raise InvalidInput(f"{name} has the number {constant}, which JSON does not know")

    try:
        value: Json = json.loads(text, object_pairs_hook=unique_keys, parse_constant=refuse)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"{name} is not JSON: {error.msg[:1].lower()}{error.msg[1:]} ({place})") from None
    except DuplicateKey as error:
        raise InvalidInput(f"{name} has the key {error.key!r} twice in one object", key=error.key) from None
    except (RecursionError, ValueError):
        raise InvalidInput(f"{name} is nested too deeply or has a number too long to read") from None
    return value
