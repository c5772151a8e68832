"""Which capabilities fit a goal, by its words alone: deterministic, and without a model. Pure.

For whoever has to write a plan with few capabilities in view. Descriptions are English; a goal may be Chinese, so the
commonest verbs and nouns are known in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from chaoscore.domain.capability import Capability
from chaoscore.domain.json import is_object
from chaoscore.domain.memory import search_tokens

_ALSO: dict[str, tuple[str, ...]] = {
    "url": ("http", "fetch", "request"),
    "file": ("fs", "file", "read"),
    "download": ("http", "fetch"),
    "website": ("http", "fetch"),
    "page": ("http", "fetch"),
    "save": ("write", "file"),
    "store": ("write", "file"),
    "count": ("query", "count"),
    "filter": ("query", "select"),
    "extract": ("query", "select"),
    "summarize": ("summary", "text", "generate"),
    "translate": ("translation", "text", "generate"),
    "compare": ("text", "generate"),
    "读取": ("read", "file"),
    "文件": ("file", "read"),
    "目录": ("list", "folder"),
    "列出": ("list", "folder"),
    "写入": ("write", "file"),
    "保存": ("write", "file"),
    "抓取": ("http", "fetch"),
    "网页": ("http", "fetch"),
    "下载": ("http", "fetch"),
    "统计": ("query", "count"),
    "筛选": ("query", "select"),
    "提取": ("query", "select"),
    "总结": ("summary", "text", "generate"),
    "摘要": ("summary", "text", "generate"),
    "翻译": ("translation", "text", "generate"),
}
_URL = re.compile(r"https?://")
_FILE = re.compile(r"[\w-]+\.(?:md|txt|json|csv|py|js|ts|html|toml|ya?ml|log)\b|\w/\w", re.ASCII)
_STEM_CHARS = 5
_NAME_WEIGHT = 3
_WORDS_MAX = 400


def fitting(goal: str, capabilities: Mapping[str, Capability], count: int) -> tuple[Capability, ...]:
    """At most ``count`` capabilities, the best first; all of them, in their own order, when there are no more.

    Equal ones stay in the order they were registered in.
    """
    if len(capabilities) <= count:
        return tuple(capabilities.values())
    wanted = _words_of(goal)
    scored = sorted(enumerate(capabilities.values()), key=lambda pair: (-_score(pair[1], wanted), pair[0]))
    return tuple(capability for _, capability in scored[:count])


def _words_of(goal: str) -> frozenset[str]:
    words = dict.fromkeys(search_tokens(goal)[:_WORDS_MAX])
    if _URL.search(goal):
        words["url"] = None
    if _FILE.search(goal):
        words["file"] = None
    also = [hint for word in words for hint in _ALSO.get(word, ())]
    return frozenset(_stem(word) for word in (*words, *also) if len(word) > 1)


def _score(capability: Capability, wanted: frozenset[str]) -> int:
    name = {_stem(word) for word in re.split(r"[._]", capability.name)}
    properties = capability.input_schema.get("properties")
    keys = " ".join(properties) if is_object(properties) else ""
    text = {_stem(word) for word in search_tokens(f"{capability.description} {keys}")[:_WORDS_MAX]}
    return _NAME_WEIGHT * len(wanted & name) + len(wanted & text)


def _stem(word: str) -> str:
    """``files`` and ``file``, ``summarize`` and ``summary`` count as one word."""
    short = word[:_STEM_CHARS]
    return short[:-1] if len(short) == len(word) > 3 and word.endswith("s") else short
