"""Ids from the operating system's randomness: credentials that cannot be guessed, labels that do not repeat."""

from __future__ import annotations

import base64
import secrets

CREDENTIAL_BYTES = 24
LABEL_BYTES = 10


class RandomIds:
    """``Ids`` over ``secrets``: a credential has 192 random bits, a label 80."""

    __slots__ = ()

    def credential(self, prefix: str) -> str:
        return f"{prefix}_{secrets.token_urlsafe(CREDENTIAL_BYTES)}"

    def label(self, prefix: str) -> str:
        return f"{prefix}-{base64.b32encode(secrets.token_bytes(LABEL_BYTES)).decode('ascii').lower()}"
