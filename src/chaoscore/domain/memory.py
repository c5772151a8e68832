"""Memories: values, limits and the rules of conditional writes, expiry and search text (spec §8)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from unicodedata import normalize

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, pointer_join, unfit_parts

Kind = Literal["semantic", "episodic", "procedural"]

KEY_CHARS_MAX = 200
VALUE_BYTES_MAX = 262_144
VALUE_NESTING_MAX = 64
TAGS_MAX = 32
TAG_CHARS_MAX = 64
TTL_SECONDS_MAX = 10 * 366 * 86_400
LIMIT_MAX = 100


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered value. Times are seconds since the epoch; ``version`` counts writes of the key from 1.

    ``kind``, ``source``, ``trust``, ``episode``, ``valid_from`` and ``valid_to`` leave room for episodic and
    procedural memory.
    """

    key: str
    value: Json
    tags: tuple[str, ...] = ()
    version: int = 1
    created_at: float = 0.0
    updated_at: float = 0.0
    expires_at: float | None = None
    kind: Kind = "semantic"
    source: str = "caller"
    trust: str = "untrusted"
    episode: str | None = None
    valid_from: float | None = None
    valid_to: float | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "key": self.key,
            "value": self.value,
            "tags": list(self.tags),
            "version": self.version,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "expires_at": self.expires_at,
            "kind": self.kind,
            "source": self.source,
            "trust": self.trust,
        }


@dataclass(frozen=True, slots=True)
class Recollection:
    """A page of memories. ``cursor`` continues it, ``None`` at the end."""

    memories: tuple[Memory, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """By exact ``key``, by ``text`` (ranked), by ``tags`` (all of them), or everything, newest first."""

    key: str | None = None
    text: str | None = None
    tags: tuple[str, ...] = ()
    limit: int = 20
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A write. ``expect_version`` 0 means "must not exist yet"; ``None`` writes whatever is there."""

    key: str
    value: Json
    tags: tuple[str, ...] = field(default=())
    ttl_seconds: float | None = None
    expect_version: int | None = None
    kind: Kind = "semantic"
    source: str = "caller"
    trust: str = "untrusted"

    def validated(self) -> NewMemory:
        """This write if it keeps every bound. Raises ``InvalidInput`` naming the key."""
        if not _is_text(self.key, KEY_CHARS_MAX):
            raise InvalidInput(f"key must be Unicode text of 1 to {KEY_CHARS_MAX} characters without NUL", key="key")
        if len(self.tags) > TAGS_MAX or not all(_is_text(tag, TAG_CHARS_MAX) for tag in self.tags):
            raise InvalidInput(
                f"tags: at most {TAGS_MAX}, each Unicode text of 1 to {TAG_CHARS_MAX} characters without NUL",
                key="tags",
            )
        if self.ttl_seconds is not None and not 0 < self.ttl_seconds <= TTL_SECONDS_MAX:
            raise InvalidInput(f"ttl_seconds must be above 0 and at most {TTL_SECONDS_MAX}", key="ttl_seconds")
        if self.expect_version is not None and self.expect_version < 0:
            raise InvalidInput("expect_version must be 0 (must not exist) or a version", key="expect_version")
        for unfit in unfit_parts(self.value, nesting_max=VALUE_NESTING_MAX, bytes_max=VALUE_BYTES_MAX):
            where = f"value{pointer_join(*unfit.tokens)}".encode("ascii", "backslashreplace").decode("ascii")
            raise InvalidInput(f"{where[:200]}: {unfit.reason}", key="value")
        return self


def _is_text(text: str, chars_max: int) -> bool:
    """Whether a store can keep it as a name: Unicode that UTF-8 can write, without NUL."""
    if not 0 < len(text) <= chars_max or "\x00" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_CJK = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003134f]+"
)


def search_tokens(text: str) -> list[str]:
    """Words in the one form that is compared (compatibility characters and case folded), and single characters plus
    overlapping bigrams of every CJK stretch.

    A two-character Chinese word is found because it is one of the bigrams. Total for any text.
    """
    tokens: list[str] = []
    for word in _WORD.findall(folded(text)):
        at = 0
        for stretch in _CJK.finditer(word):
            if stretch.start() > at:
                tokens.append(word[at : stretch.start()])
            han = stretch.group()
            tokens.extend(han)
            tokens.extend(han[i : i + 2] for i in range(len(han) - 1))
            at = stretch.end()
        if at < len(word):
            tokens.append(word[at:])
    return tokens


def folded(text: str) -> str:
    """The one form in which texts are compared: compatibility characters and case folded. Total for any text."""
    # Folding case can undo the composed form (Unicode 3.13, D147), hence the second pass.
    return normalize("NFKC", normalize("NFKC", text).casefold())
