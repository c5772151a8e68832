"""Goals that are planned without a model, and the much larger number that are not."""

from __future__ import annotations

import re
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps
from chaoscore.domain.rules import Abstained, RulesPlan, plan_by_rules
from tests.planning.support import REGISTRY

Calls: TypeAlias = "list[tuple[str, Json]]"

READ: Calls = [("fs.read_text", {"path": "README.md"})]
DOCS_DEEP: Calls = [("fs.list", {"path": "docs", "glob": "*.md", "recursive": True})]
DOCS_FLAT: Calls = [("fs.list", {"path": "docs", "glob": "*.md"})]
FETCH: Calls = [("http.request", {"url": "https://example.com/a"})]
LINES: Calls = [*READ, ("json.query", {"data": {"$from": "s1", "path": "/lines"}, "query": "length(@)"})]
FILES: Calls = [*DOCS_DEEP, ("json.query", {"data": {"$from": "s1", "path": "/entries"}, "query": "length(@)"})]

UNDERSTOOD: list[tuple[str, Calls]] = [
    ("read README.md", READ),
    ("Read README.md.", READ),
    ("please read the file README.md", READ),
    ("Can you read README.md?", READ),
    ("show me the contents of README.md", READ),
    ("print `README.md`", READ),
    ("读取 README.md", READ),
    ("读取README.md", READ),
    ("请读取 README.md 的内容", READ),
    ("读取文件 README.md", READ),
    ("读一下 README.md", READ),
    ("查看「README.md」", READ),
    ("read docs/guide/a-b.md", [("fs.read_text", {"path": "docs/guide/a-b.md"})]),
    ('read "my notes.txt"', [("fs.read_text", {"path": "my notes.txt"})]),
    ("read .gitignore", [("fs.read_text", {"path": ".gitignore"})]),
    ("read LICENSE", [("fs.read_text", {"path": "LICENSE"})]),
    ("list Markdown files under docs", DOCS_DEEP),
    ("List all the Markdown files under docs!", DOCS_DEEP),
    ("find .md files under the docs folder", DOCS_DEEP),
    ("list *.md under docs", DOCS_DEEP),
    ("recursively list Markdown files in docs", DOCS_DEEP),
    ("list Markdown files in docs", DOCS_FLAT),
    ("列出 docs 下的 Markdown 文件", DOCS_DEEP),
    ("列出docs目录下的所有Markdown文件", DOCS_DEEP),
    ("请列出 docs 里的 Markdown 文件", DOCS_FLAT),
    ("递归列出 docs 中的 Markdown 文件", DOCS_DEEP),
    ("list the files in the manual folder", [("fs.list", {"path": "manual", "glob": "*"})]),
    ("list the docs folder", [("fs.list", {"path": "docs"})]),
    ("list the contents of docs/", [("fs.list", {"path": "docs/"})]),
    ("列出 docs 目录的内容", [("fs.list", {"path": "docs"})]),
    ("list files", [("fs.list", {"path": ".", "glob": "*"})]),
    ("fetch https://example.com/a", FETCH),
    ("GET https://example.com/a.", FETCH),
    ("get the page at https://example.com/a", FETCH),
    ("抓取 https://example.com/a 的内容", FETCH),
    ("获取https://example.com/a的内容。", FETCH),
    ("how many lines are in README.md?", LINES),
    ("how many lines does README.md have", LINES),
    ("count the lines of README.md", LINES),
    ("README.md 有多少行？", LINES),
    ("统计 README.md 的行数", LINES),
    ("how many Markdown files are under docs?", FILES),
    ("docs 目录下有多少个 Markdown 文件？", FILES),
    ('write "hello" to notes.txt', [("fs.write_text", {"path": "notes.txt", "text": "hello"})]),
    ('把 "你好" 写入 notes.txt', [("fs.write_text", {"path": "notes.txt", "text": "你好"})]),
]

NOT_UNDERSTOOD = [
    ("", ()),
    ("README.md", ()),
    ("read", ()),
    ("read README.md?", ()),
    ("read README.md LICENSE", ()),
    ("don't read README.md", ("don't",)),
    ("do not read README.md", ("do", "not")),
    ("never read README.md", ("never",)),
    ("read README.md if it exists", ("if", "it")),
    ("read README.md unless it is large", ("unless", "it")),
    ("read README.md and list docs", ("and",)),
    ("read README.md, list docs", (",",)),
    ("read README.md then stop", ("then",)),
    ("read README.md every day", ("every",)),
    ("read everything", ("everything",)),
    ("read it", ("it",)),
    ("read .md files", ()),
    ("read all .md", ()),
    ("list all .md", ()),
    ("read .", ()),
    ("find README.md", ()),
    ('find "my file"', ()),
    ("show docs", ()),
    ("显示文件", ()),
    ("list README.md", ()),
    ("list Markdown files in detail", ("detail",)),
    ("list Markdown files except drafts", ("except",)),
    ("list files in alphabetical order", ("order",)),
    ("list files under it", ("it",)),
    ("list files under any folder", ("any",)),
    ("列出 this 下的文件", ("this",)),
    ("fetch https://example.com/a, then stop", ("https://example.com/a,", "then")),
    ("fetch example.com", ()),
    ("download https://example.com/a", ()),
    ("write hello to notes.txt", ("hello",)),
    ("delete README.md", ("delete",)),
    ("summarize README.md", ("summarize",)),
    ("how many words are in README.md", ("words",)),
    ("不要读取 README.md", ("不要",)),
    ("别读取 README.md", ("别",)),
    ("如果存在就读取 README.md", ("如果存在就",)),
    ("读取 README.md 并列出 docs", ("并",)),
    ("读取 README.md，然后总结", ("，", "然后总结")),
    ("每天读取 README.md", ("每天",)),
    ("读取文档.md", ("文档.md",)),
    ("删除 README.md", ("删除",)),
    ("总结 README.md", ("总结",)),
    ("read README.md\x00", ("\x00",)),
    ("read README.md\u202e", ("\u202e",)),
    ("read " + "a" * 600, ()),
]

TURNS = [
    "not", "never", "don't", "if", "unless", "except", "without", "until", "before", "after", "and", "or", "but",
    "then", "only", "twice", "tomorrow", "every", "不", "不要", "别", "如果", "除非", "每天", "然后", "并", "或", "未",
    ",", ";", "，", "；", "：", "delete", "summarize", "删除", "总结",
]  # fmt: skip


@pytest.mark.parametrize(("goal", "calls"), UNDERSTOOD, ids=[goal for goal, _ in UNDERSTOOD])
def test_a_goal_whose_every_word_is_explained_is_planned(goal: str, calls: Calls) -> None:
    plan = plan_by_rules(goal, REGISTRY)
    assert isinstance(plan, RulesPlan), plan
    assert [(step["capability"], step["arguments"]) for step in plan.steps] == calls


@pytest.mark.parametrize(("goal", "words"), NOT_UNDERSTOOD, ids=[repr(goal[:40]) for goal, _ in NOT_UNDERSTOOD])
def test_any_other_goal_is_left_alone_and_the_odd_words_are_named(goal: str, words: tuple[str, ...]) -> None:
    plan = plan_by_rules(goal, REGISTRY)
    assert isinstance(plan, Abstained), plan
    assert plan.reason
    assert set(words) <= set(plan.unexplained)


@pytest.mark.parametrize("goal", [goal for goal, _ in UNDERSTOOD])
def test_every_plan_of_the_rules_passes_the_linter(goal: str) -> None:
    plan = plan_by_rules(goal, REGISTRY)
    assert isinstance(plan, RulesPlan)
    assert check_steps(list(plan.steps), REGISTRY, Limits()).faults == ()


@pytest.mark.parametrize("goal", [goal for goal, _ in UNDERSTOOD if '"' not in goal and "「" not in goal])
def test_a_word_that_turns_the_sentence_round_is_never_overlooked(goal: str) -> None:
    gaps = [0, *(gap.end() for gap in re.finditer(r"\s+", goal)), len(goal)]
    for word in TURNS:
        for gap in gaps:
            turned = f"{goal[:gap]} {word} {goal[gap:]}"
            assert isinstance(plan_by_rules(turned, REGISTRY), Abstained), turned


@pytest.mark.parametrize("goal", [goal for goal, _ in UNDERSTOOD])
def test_a_plan_needs_its_capabilities_to_be_registered(goal: str) -> None:
    plan = plan_by_rules(goal, {})
    assert isinstance(plan, Abstained)
    assert "not registered" in plan.reason


PIECES = [
    *("read", "show", "list", "find", "fetch", "write", "count", "how many", "the", "all", "of", "contents", "file"),
    *("files", "folder", "lines", "under", "in", "to", "are", "Markdown", "recursively", "please", "README.md"),
    *("docs", "docs/a.md", "*.md", ".md", "https://example.com/a", '"my file"', "?", ".", "manual"),
    *("读取", "列出", "抓取", "所有", "的", "内容", "文件", "目录", "行", "下", "里", "有多少", "把", "写入", "请"),
    *("not", "if", "and", "不", "如果", "并"),
]


def explained_by_the_tests_own_list(word: str, plan: RulesPlan) -> bool:
    """The tiny second definition: a word is one of those listed here as harmless, or it stands in an argument."""
    bare = word.strip('"?.')
    in_arguments = [
        text
        for step in plan.steps
        for text in (step["arguments"].values() if isinstance(step["arguments"], dict) else ())
        if isinstance(text, str)
    ]
    if bare in ("not", "if", "and", "不", "如果", "并"):
        return False
    return bare in PIECES or bare == "" or any(bare in text for text in in_arguments)


@given(st.lists(st.sampled_from(PIECES), max_size=9), st.sampled_from([" ", "  ", "\n"]))
def test_whatever_is_planned_explains_every_word_and_passes_the_linter(words: list[str], space: str) -> None:
    plan = plan_by_rules(space.join(words), REGISTRY)
    if isinstance(plan, RulesPlan):
        assert all(explained_by_the_tests_own_list(word, plan) for word in words), (words, plan)
        assert check_steps(list(plan.steps), REGISTRY, Limits()).faults == ()
        # A name that was given is in the plan: nothing that was said is dropped.
        for word in words:
            if word in ("README.md", "docs", "docs/a.md", "https://example.com/a", "manual"):
                assert word in str([step["arguments"] for step in plan.steps])


@given(st.text(max_size=120))
def test_any_text_gets_an_answer(goal: str) -> None:
    plan_by_rules(goal, REGISTRY)


@given(st.text(alphabet="读取列出的文件 README.md docs/*\"'`?!.，、「」", max_size=80))
def test_any_text_of_familiar_characters_gets_an_answer(goal: str) -> None:
    plan = plan_by_rules(goal, REGISTRY)
    assert isinstance(plan, Abstained) or check_steps(list(plan.steps), REGISTRY, Limits()).ok
