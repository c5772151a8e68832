"""A goal as tokens, each of exactly one kind. A word that is in no list is ``UNKNOWN`` or a ``BARE`` name.

A kind is one character, so that a sentence is a string of kinds and a clause a pattern over it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

# What words mean.
POLITE = "P"
READ, SHOW, LIST, FIND, FETCH, WRITE, COUNT = "R", "S", "L", "K", "F", "W", "C"
THE, ALL = "t", "d"
OF = "o"
TEXT = "T"
FILE, FILES, FILE_OR_FILES = "n", "N", "m"
FOLDER = "M"
PAGE = "H"
LINES = "l"
UNDER, IN, AT, INTO, TAKE = "U", "I", "A", "x", "B"
IS = "v"
TYPE = "G"
RECURSIVE = "r"
# What stands for itself.
URL, PATH, DIRECTORY, EITHER, DOTTED, GLOB, QUOTED, COMMON, BARE = "u", "p", "Y", "D", "X", "g", "q", "c", "w"
STOP, QUESTION = "f", "Q"
UNKNOWN = "z"

TYPES = {
    "markdown": "*.md",
    "python": "*.py",
    "json": "*.json",
    "csv": "*.csv",
    "html": "*.html",
    "toml": "*.toml",
    "javascript": "*.js",
    "typescript": "*.ts",
    "text": "*.txt",
    "md": "*.md",
    "txt": "*.txt",
    "文本": "*.txt",
}

_ENGLISH: dict[str, str] = {
    "please|kindly|can you|could you|would you|for me": POLITE,
    "read|view|display|print|cat": READ,
    "show|show me|give me": SHOW,
    "list|enumerate": LIST,
    "find": FIND,
    "fetch|get|retrieve|request": FETCH,
    "write": WRITE,
    "count|how many": COUNT,
    "the": THE,
    "all|all the|all of the": ALL,
    "of": OF,
    "content|contents|whole text": TEXT,
    "file": FILE,
    "files": FILES,
    "folder|directory": FOLDER,
    "page|web page|webpage|url": PAGE,
    "line|lines": LINES,
    "under|below": UNDER,
    "in|inside|within": IN,
    "at|from": AT,
    "to|into": INTO,
    "is|are|are there|does|has|have": IS,
    "recursively": RECURSIVE,
}
_CHINESE: dict[str, str] = {
    "请|请你|请帮我|帮我|麻烦|麻烦你|一下|给我|吧": POLITE,
    "读|读取|读出|阅读|查看|看|看看": READ,
    "显示|展示": SHOW,
    "列出|列举|列": LIST,
    "查找|找出": FIND,
    "抓取|获取|请求|访问": FETCH,
    "写|写入": WRITE,
    "统计|有多少|有多少个|有几个|有几|多少": COUNT,
    "所有|所有的|全部|全部的": ALL,
    "的": OF,
    "内容|全文": TEXT,
    "文件|文档": FILE_OR_FILES,
    "目录|文件夹": FOLDER,
    "网页|页面|网址": PAGE,
    "行|行数": LINES,
    "下|下面|底下|之下": UNDER,
    "里|里面|中|内": IN,
    "到|进": INTO,
    "把|将": TAKE,
    "递归|递归地": RECURSIVE,
}


def _listed(*tables: dict[str, str]) -> dict[str, str]:
    return {phrase: kind for table in tables for phrases, kind in table.items() for phrase in phrases.split("|")}


_LEXICON = {**_listed(_ENGLISH, _CHINESE), **dict.fromkeys(TYPES, TYPE)}
_PHRASE_WORDS_MAX = max(phrase.count(" ") + 1 for phrase in _LEXICON)
_CJK_PHRASE_MAX = max(len(phrase) for phrase in _listed(_CHINESE))

# Names without a dot or a slash that are files or folders wherever they are mentioned.
_PLAIN_FILES = frozenset({"license", "makefile", "dockerfile", "readme", "changelog", "procfile", "gemfile"})
_PLAIN_FOLDERS = frozenset(
    {"docs", "doc", "src", "lib", "test", "tests", "examples", "scripts", "data", "notes", "bin", "tools", "assets"}
)
# Words that turn a sentence round, bind it to something or point elsewhere are never the name of anything.
_NEVER_NAMES = frozenset(
    word
    for line in (
        "no not never none nothing neither nor don't dont do cannot can't cant won't without except unless if else",
        "otherwise when whenever while until before after once only just then and or but also too instead again",
        "every each any some most more less few other others another same different it its this that these those",
        "there here them they everything anything something all both which what who whose why how where maybe perhaps",
        "later now today tomorrow yesterday daily hourly weekly soon always sometimes order detail full parallel turn",
        "review construction control",
    )
    for word in line.split()
)

_URL = re.compile(r"https?://[A-Za-z0-9\[][A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")
_QUOTES = {'"': '"', "`": "`", "“": "”", "‘": "’", "「": "」", "『": "』", "《": "》", "'": "'"}
_CHUNK = re.compile(r"[A-Za-z0-9_.~/@+*\-'’\u00c0-\u024f]+")
_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
_SPACE = re.compile(r"\s+")
QUOTED_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Token:
    """``value`` is what the token stands for (a path without its quotes), ``text`` how it was written."""

    kind: str
    text: str
    value: str


def tokens_of(goal: str) -> list[Token]:
    """Every character of the goal but white space is in exactly one token. Total; time grows with the length."""
    found: list[Token] = []
    at = 0
    while at < len(goal):
        if space := _SPACE.match(goal, at):
            at = space.end()
            continue
        tokens, end = _next(goal, at)
        if found and tokens[0].kind in (PATH, DOTTED) and found[-1].kind in _NOUNS and _CJK.match(goal[at - 1]):
            # "文档.md" may be one name, or a noun and a name: nothing but a space tells.
            tokens = [_unknown(found.pop().text + tokens[0].text), *tokens[1:]]
        found.extend(tokens)
        at = end
    return found


_NOUNS = (FILE_OR_FILES, FOLDER, PAGE, TEXT)


def _next(goal: str, at: int) -> tuple[list[Token], int]:
    if url := _URL.match(goal, at):
        return _ending(url.group(), goal, url.end(), _url), url.end()
    if (close := _QUOTES.get(goal[at])) is not None:
        end = goal.find(close, at + 1, at + 2 + QUOTED_CHARS_MAX)
        inner = goal[at + 1 : end] if end > 0 else ""
        if inner.strip() and inner.isprintable():
            return [Token(QUOTED, goal[at : end + 1], inner)], end + 1
        return [_unknown(goal[at])], at + 1
    if _CHUNK.match(goal, at):
        return _chunk(goal, at)
    if run := _CJK.match(goal, at):
        return _chinese(run.group()), run.end()
    final = not goal[at + 1 :].strip()
    if goal[at] in "!！。" and final:
        return [Token(STOP, goal[at], goal[at])], at + 1
    if goal[at] in "?？" and final:
        return [Token(QUESTION, goal[at], goal[at])], at + 1
    return [_unknown(goal[at])], at + 1


def _chunk(goal: str, at: int) -> tuple[list[Token], int]:
    """The longest listed phrase that begins here, or else what one run of name characters stands for."""
    runs: list[re.Match[str]] = []
    start = at
    while len(runs) < _PHRASE_WORDS_MAX and (run := _CHUNK.match(goal, start)):
        runs.append(run)
        space = _SPACE.match(goal, run.end())
        if space is None:
            break
        start = space.end()
    for count in range(len(runs), 0, -1):
        end = runs[count - 1].end()
        phrase = " ".join(run.group() for run in runs[:count]).lower()
        if phrase in _LEXICON:
            return [Token(_LEXICON[phrase], goal[at:end], phrase)], end
    end = runs[0].end()
    return _ending(runs[0].group(), goal, end, _name), end


def _ending(text: str, goal: str, end: int, make: Callable[[str], Token]) -> list[Token]:
    """A name or address at the very end of the goal gives up the mark that ends the sentence."""
    if not goal[end:].strip() and text[-1] in ".?!" and text.strip(".") and not text.endswith(("..", "/.")):
        kind = QUESTION if text[-1] == "?" else STOP
        lowered = text[:-1].lower()
        first = Token(_LEXICON[lowered], text[:-1], lowered) if lowered in _LEXICON else make(text[:-1])
        return [first, Token(kind, text[-1], text[-1])]
    return [make(text)]


def _url(text: str) -> Token:
    return Token(URL, text, text) if text[-1] not in ".,;:!?'" else _unknown(text)


def _name(text: str) -> Token:
    lowered = text.lower()
    if "'" in text or "’" in text or lowered in _NEVER_NAMES or text.startswith("-"):
        return _unknown(text)
    if text in (".", "..") or text.endswith("/"):
        return Token(DIRECTORY, text, text)
    if text.endswith(".") or not any(char.isalnum() for char in text):
        return _unknown(text)
    if "*" in text:
        return Token(GLOB, text, text)
    last = text.rsplit("/", 1)[-1]
    if text == last and text.startswith("."):
        return Token(DOTTED, text, text)
    if "." in last.lstrip(".") or last.lower() in _PLAIN_FILES:
        return Token(PATH, text, text)
    if "/" in text:
        return Token(EITHER, text, text)
    return Token(COMMON if lowered in _PLAIN_FOLDERS else BARE, text, text)


def _chinese(run: str) -> list[Token]:
    """Longest listed words first, from the left. Characters of no listed word are one unknown token."""
    found: list[Token] = []
    at, odd = 0, ""
    while at < len(run):
        for size in range(min(_CJK_PHRASE_MAX, len(run) - at), 0, -1):
            word = run[at : at + size]
            if word in _LEXICON:
                if odd:
                    found.append(_unknown(odd))
                    odd = ""
                found.append(Token(_LEXICON[word], word, word))
                at += size
                break
        else:
            odd += run[at]
            at += 1
    return [*found, _unknown(odd)] if odd else found


def _unknown(text: str) -> Token:
    return Token(UNKNOWN, text, text)
