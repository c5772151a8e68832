"""Reading a policy: understood whole, or refused with file, key and what to write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.errors import PolicyInvalid
from chaoscore.domain.json import Json
from chaoscore.domain.policy.model import DEFAULT_DOORS, DEFAULT_POLICY, Policy
from chaoscore.domain.policy.parse import POLICY_BYTES_MAX, parse_policy, parse_policy_bytes
from tests.domain.policies import NAMES, RawPolicy, raw_policies
from tests.domain.values import wild_json

KNOWN = ("http.request", "fs.read_text", "fs.list", "fs.write_text", "json.query")
EMPTY: dict[str, Json] = {
    "allowedCapabilities": [],
    "deniedCapabilities": [],
    "requireConfirmationFor": [],
    "httpAllowedDomains": [],
}


def refusal(raw: Json) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as raised:
        parse_policy(raw, KNOWN, "/etc/policy.json")
    assert raised.value.message.startswith("/etc/policy.json: ")
    assert raised.value.details["file"] == "/etc/policy.json"
    return raised.value


def test_the_default_policy_is_understood() -> None:
    parsed = parse_policy(DEFAULT_POLICY, KNOWN, "policy.json")
    assert parsed.policy.confirm == ("http.request", "fs.write_text")
    assert parsed.policy.approval_mode == "caller"
    assert parsed.policy.approval_doors == DEFAULT_DOORS
    assert parsed.warnings == ()


def test_every_key_is_read() -> None:
    raw = {
        "allowedCapabilities": ["fs.*", "http.request"],
        "deniedCapabilities": ["fs.write_text"],
        "requireConfirmationFor": ["http.*"],
        "httpAllowedDomains": ["Example.COM", "*.Bücher.example", "10.0.0.1", "[0::1]"],
        "httpAllowPrivate": ["10.0.0.1:8080", "[::1]:1"],
        "approvalMode": "human",
        "approvalDoors": ["folder", "web"],
    }
    parsed = parse_policy(raw, KNOWN, "policy.json")
    assert parsed.policy == Policy(
        allowed=("fs.*", "http.request"),
        denied=("fs.write_text",),
        confirm=("http.*",),
        http_allowed_domains=("example.com", "*.xn--bcher-kva.example", "10.0.0.1", "[::1]"),
        http_allow_private=("10.0.0.1:8080", "[::1]:1"),
        approval_mode="human",
        approval_doors=("folder", "web"),
        digest=parsed.policy.digest,
    )
    assert parsed.policy.digest.startswith("sha256:")
    assert parsed.warnings == ()


def change(**changes: Json) -> dict[str, Json]:
    return {**EMPTY, **changes}


REFUSED: list[tuple[Json, str, str]] = [
    ([], "", "a policy is an object, not array"),
    (None, "", "not null"),
    ("x", "", "not string"),
    (change(allowedCapabilites=[]), "allowedCapabilites", "did you mean 'allowedCapabilities'?"),
    (change(AllowedCapabilities=[]), "AllowedCapabilities", "did you mean 'allowedCapabilities'?"),
    (change(approvalmode="human"), "approvalmode", "did you mean 'approvalMode'?"),
    (change(zzz=1), "zzz", "valid keys: allowedCapabilities, "),
    (change(allowedCapabilities={}), "allowedCapabilities", "must be a list of texts, not object"),
    (change(allowedCapabilities="fs.*"), "allowedCapabilities", "must be a list of texts, not string"),
    (change(allowedCapabilities=None), "allowedCapabilities", "must be a list of texts, not null"),
    (change(deniedCapabilities=[1]), "deniedCapabilities[0]", "must be text, not integer"),
    (change(deniedCapabilities=[["fs.list"]]), "deniedCapabilities[0]", "must be text, not array"),
    (change(deniedCapabilities=["fs.list", None]), "deniedCapabilities[1]", "must be text, not null"),
    (change(deniedCapabilities=["fs.lst"]), "deniedCapabilities[0]", "did you mean 'fs.list'?"),
    (change(deniedCapabilities=["FS.list"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["fs.list "]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["fs.list\n"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=[""]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["*"]), "deniedCapabilities[0]", "write a name as 'fs.read_text' or a prefix as 'fs.*'"),
    (change(deniedCapabilities=["fs*"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["*.list"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["fs.*.x"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["fs"]), "deniedCapabilities[0]", "is no capability name"),
    (change(deniedCapabilities=["zzz.qqq"]), "deniedCapabilities[0]", "chaoscore inspect capabilities"),
    (change(requireConfirmationFor=["fs.list", "fs.*", "fs.list"]), "requireConfirmationFor[2]", "[0] already"),
    (change(httpAllowedDomains=["https://example.com"]), "httpAllowedDomains[0]", "without scheme or path"),
    (change(httpAllowedDomains=["example.com/"]), "httpAllowedDomains[0]", "without scheme or path"),
    (change(httpAllowedDomains=["example.com:443"]), "httpAllowedDomains[0]", "without a port"),
    (change(httpAllowedDomains=["::1"]), "httpAllowedDomains[0]", "brackets"),
    (change(httpAllowedDomains=["*"]), "httpAllowedDomains[0]", "'*.example.com'"),
    (change(httpAllowedDomains=["a.*.example"]), "httpAllowedDomains[0]", "'*.example.com'"),
    (change(httpAllowedDomains=["*.*.example"]), "httpAllowedDomains[0]", "'*.example.com'"),
    (change(httpAllowedDomains=["*.10.0.0.1"]), "httpAllowedDomains[0]", "an address has no subdomains"),
    (change(httpAllowedDomains=["*."]), "httpAllowedDomains[0]", "host name"),
    (change(httpAllowedDomains=[""]), "httpAllowedDomains[0]", "host name"),
    (change(httpAllowedDomains=["user@example.com"]), "httpAllowedDomains[0]", "host name"),
    (change(httpAllowedDomains=["example.com "]), "httpAllowedDomains[0]", "host name"),
    (change(httpAllowedDomains=["2130706433"]), "httpAllowedDomains[0]", "unusual notation"),
    (change(httpAllowedDomains=["a.example", "A.EXAMPLE."]), "httpAllowedDomains[1]", "already"),
    (change(httpAllowPrivate=["localhost"]), "httpAllowPrivate[0]", "must name a port"),
    (change(httpAllowPrivate=["localhost:0"]), "httpAllowPrivate[0]", "1 to 65535"),
    (change(httpAllowPrivate=["http://localhost:80"]), "httpAllowPrivate[0]", "host:port"),
    (change(httpAllowPrivate=["*.x:80"]), "httpAllowPrivate[0]", "host:port"),
    (change(httpAllowPrivate={}), "httpAllowPrivate", "list"),
    (change(approvalMode="robot"), "approvalMode", "'caller' or 'human', not 'robot'"),
    (change(approvalMode=None), "approvalMode", "'caller' or 'human'"),
    (change(approvalMode=["human"]), "approvalMode", "'caller' or 'human'"),
    (change(approvalDoors=["window"]), "approvalDoors[0]", "valid doors: web, terminal, folder, bridge, elicitation"),
    (change(approvalDoors=["web", "web"]), "approvalDoors[1]", "already"),
    (change(approvalDoors=[]), "approvalDoors", "at least one"),
    (change(approvalDoors="web"), "approvalDoors", "list"),
]


@pytest.mark.parametrize(("raw", "key", "words"), REFUSED, ids=[f"{i}-{key}" for i, (_, key, _) in enumerate(REFUSED)])
def test_a_policy_not_fully_understood_is_refused_with_key_and_fix(raw: Json, key: str, words: str) -> None:
    error = refusal(raw)
    assert error.details["key"] == key
    assert words in error.message


@pytest.mark.parametrize(("raw", "key", "words"), REFUSED, ids=[f"{i}-{key}" for i, (_, key, _) in enumerate(REFUSED)])
def test_the_place_of_a_fault_is_named_once(raw: Json, key: str, words: str) -> None:
    error = refusal(raw)
    faults = error.details["faults"]
    assert isinstance(faults, list)
    for fault in faults:
        assert isinstance(fault, dict)
        assert not str(fault["message"]).startswith((str(fault["key"]) or "\0", repr(fault["key"])))
    if key:
        assert error.message.startswith(f"/etc/policy.json: {key}: ")
        assert error.message.count(f"{key}:") == 1
        assert error.message.count(f"{key} ") == 0


@pytest.mark.parametrize("key", EMPTY)
def test_each_of_the_four_lists_must_be_there(key: str) -> None:
    error = refusal({name: value for name, value in EMPTY.items() if name != key})
    assert error.details["key"] == key
    assert f'write "{key}": []' in error.message


def test_all_faults_are_listed_at_once() -> None:
    error = refusal({"allowedCapabilities": ["x", 1], "deniedCapabilities": {}, "approvalMode": 3, "q": 1})
    faults = error.details["faults"]
    assert isinstance(faults, list)
    assert {fault["key"] for fault in faults if isinstance(fault, dict)} == {
        "allowedCapabilities[0]",
        "allowedCapabilities[1]",
        "deniedCapabilities",
        "requireConfirmationFor",
        "httpAllowedDomains",
        "approvalMode",
        "q",
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (
            change(deniedCapabilities=["fz.*"]),
            "deniedCapabilities[0]: 'fz.*' matches no capability; did you mean 'fs.*'?",
        ),
        (change(httpAllowedDomains=["*.com"]), "httpAllowedDomains[0]: '*.com' covers every domain that ends in .com"),
        (change(httpAllowPrivate=["localhost:80"]), "httpAllowPrivate[0]: 'localhost:80' has no effect"),
    ],
)
def test_what_is_odd_but_clear_warns(raw: Json, words: str) -> None:
    (warning,) = parse_policy(raw, KNOWN, "policy.json").warnings
    assert warning.startswith(words)


@pytest.mark.parametrize("domain", ["localhost", "*.example"])
def test_a_private_host_that_a_domain_allows_warns_of_nothing(domain: str) -> None:
    host = domain.replace("*", "a")
    raw = change(httpAllowedDomains=[domain], httpAllowPrivate=[f"{host}:80"])
    assert not [w for w in parse_policy(raw, KNOWN, "p").warnings if w.startswith("httpAllowPrivate")]


BYTES: list[tuple[bytes, str]] = [
    (b"", "is not JSON"),
    (b"{", "is not JSON: "),
    (b'{"allowedCapabilities": [],}', "line 1 column"),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    ('{"a": "é"}'.encode("latin-1"), "is not UTF-8: byte 7"),
    ("{}".encode("utf-16"), "is not UTF-8"),
    (b'{"allowedCapabilities": [], "allowedCapabilities": []}', "'allowedCapabilities' stands there twice"),
    (b'{"x": {"y": 1, "y": 2}}', "'y' stands there twice"),
    (b'{"x": NaN}', "NaN is not JSON"),
    (b'{"x": [-Infinity]}', "-Infinity is not JSON"),
    (b'{"x": ' + b"1" * 5_000 + b"}", "number too long"),
    (b"[" * 100_000, "nested too deeply"),
    (b"// a comment\n{}", "is not JSON"),
    (b" " * (POLICY_BYTES_MAX + 1), "more than 1048576 bytes"),
    (b"null", "a policy is an object, not null"),
]


@pytest.mark.parametrize(("data", "words"), BYTES, ids=[words for _, words in BYTES])
def test_bytes_that_are_no_strict_json_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(PolicyInvalid) as raised:
        parse_policy_bytes(data, KNOWN, "/etc/policy.json")
    assert words in raised.value.message
    assert "/etc/policy.json" in raised.value.message


def test_a_refusal_does_not_repeat_the_file() -> None:
    with pytest.raises(PolicyInvalid) as raised:
        parse_policy_bytes(b'{"deniedCapabilities": ["sk-secret-000"', KNOWN, "policy.json")
    assert "sk-secret" not in raised.value.message


def outcome(raw: Json) -> PolicyInvalid | None:
    try:
        parse_policy(raw, KNOWN, "policy.json")
    except PolicyInvalid as error:
        return error
    return None


@given(wild_json)
def test_any_json_is_understood_or_refused_in_words_that_can_be_sent(raw: Json) -> None:
    error = outcome(raw)
    assert error is not None
    assert error.message.isprintable()
    json.dumps(error.details, ensure_ascii=False).encode()


@given(st.sampled_from([*EMPTY, "approvalMode", "approvalDoors", "httpAllowPrivate"]), wild_json)
def test_any_value_of_a_key_is_understood_or_refused(key: str, value: Json) -> None:
    error = outcome({**EMPTY, key: value})
    if error is None:
        assert value in ([], "caller", "human")
    else:
        assert str(error.details["key"]).startswith(key)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_our_error(data: bytes) -> None:
    with pytest.raises(PolicyInvalid):
        parse_policy_bytes(data, KNOWN, "policy.json")


@given(raw_policies)
def test_a_generated_policy_is_understood_as_written(raw: RawPolicy) -> None:
    data = json.dumps(raw).encode()
    policy = parse_policy_bytes(data, NAMES, "policy.json").policy
    assert [*policy.allowed] == raw["allowedCapabilities"]
    assert [*policy.denied] == raw["deniedCapabilities"]
    assert [*policy.confirm] == raw["requireConfirmationFor"]
    assert [*policy.http_allowed_domains] == raw["httpAllowedDomains"]


def test_thousands_of_faults_are_answered_quickly_and_briefly() -> None:
    raw = change(deniedCapabilities=[f"fs.nothing_{i}" for i in range(20_000)])
    error = refusal(raw)
    assert "and 19999 more" in error.message
    assert len(json.dumps(error.details)) < 20_000
