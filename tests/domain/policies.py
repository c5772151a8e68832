"""Policies and questions as Hypothesis draws them: few names and hosts, so that rules and questions meet."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.model import Policy, Question, Verdict
from chaoscore.domain.policy.parse import parse_policy

SEGMENTS = ("a", "b", "a_b")
NAMES = tuple(".".join(parts) for size in (2, 3) for parts in product(SEGMENTS, repeat=size))
PREFIXES = tuple(f"{name}.*" for name in (*SEGMENTS, *(".".join(parts) for parts in product(SEGMENTS, repeat=2)), "z"))
HOSTS = ("example", "a.example", "b.a.example", "c.b.a.example", "other.test", "10.0.0.1")
DOMAINS = (*HOSTS, *(f"*.{host}" for host in HOSTS if not host[0].isdigit()))
TIGHTNESS = {"ALLOW": 0, "REQUIRE_APPROVAL": 1, "DENY": 2}

RawPolicy = dict[str, list[str]]


def _some(entries: tuple[str, ...], most: int = 4) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(entries), max_size=most, unique=True)


raw_policies: st.SearchStrategy[RawPolicy] = st.fixed_dictionaries(
    {
        "allowedCapabilities": st.one_of(st.just([]), _some((*NAMES, *PREFIXES))),
        "deniedCapabilities": _some((*NAMES, *PREFIXES), 3),
        "requireConfirmationFor": _some((*NAMES, *PREFIXES)),
        "httpAllowedDomains": st.one_of(_some(DOMAINS, 5), st.just([])),
    }
)

hosts = st.one_of(
    st.sampled_from((*HOSTS, "x.example", "10.0.0.2", "evil.test", "EXAMPLE", "A.Example")),
    st.from_regex(r"[a-c0-9.x_-]{1,8}", fullmatch=True),
)
well_meant_urls = st.builds(
    "{}://{}{}{}{}".format,
    st.sampled_from(("http", "https", "HTTPS", "https", "https", "ftp", "file", "javascript")),
    st.sampled_from(("", "", "", "", "user@", "a.example@", "a.example:80@")),
    hosts,
    st.sampled_from(("", "", "", ":80", ":0", ":65535", ":65536", ":", ":x", ".", "..")),
    st.sampled_from(("", "/", "/a?b#c", "?x", "#y", "/\\", "/ ", "\t", "\n", "/@evil.test", "\\@evil.test", "//x")),
)
garbage_urls = st.text("htps:/.@[]%a1x\\?# \t0", max_size=24)
urls = st.one_of(well_meant_urls, well_meant_urls, garbage_urls)

questions: st.SearchStrategy[Question] = st.builds(
    Question,
    st.sampled_from((*NAMES, "z.z", "a", "a.b.a.b.a")),
    st.sampled_from((True, True, False)),
    st.lists(st.one_of(urls, urls, st.none()), max_size=2).map(tuple),
)


def policy_of(raw: RawPolicy) -> Policy:
    return parse_policy(raw, NAMES, "policy.json").policy


def ask(raw: RawPolicy, question: Question, problem: str | None = None) -> Verdict:
    return Evaluator(policy_of(raw), problem).verdict(question)


def tightness(verdict: Verdict) -> int:
    return TIGHTNESS[verdict.effect]
