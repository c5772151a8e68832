"""One strict reading of URLs and hosts: what it takes, what it refuses, and that nobody else reads another host."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.policy.hosts import URL_CHARS_MAX, Target, ascii_host, is_address, parse_url, url_host
from tests.domain.policies import urls

TAKEN = {
    "https://example.com": Target("https", "example.com", 443),
    "http://example.com/": Target("http", "example.com", 80),
    "HTTPS://EXAMPLE.COM/Path": Target("https", "example.com", 443),
    "https://example.com:8443/x?y#z": Target("https", "example.com", 8443),
    "https://example.com.": Target("https", "example.com", 443),
    "https://example.com?q=a@b": Target("https", "example.com", 443),
    "https://example.com/@evil.test": Target("https", "example.com", 443),
    "https://example.com#@evil.test": Target("https", "example.com", 443),
    "https://a_b.example": Target("https", "a_b.example", 443),
    "https://localhost:1": Target("https", "localhost", 1),
    "https://127.0.0.1:65535": Target("https", "127.0.0.1", 65_535),
    "https://[::1]/": Target("https", "[::1]", 443),
    "https://[0:0:0:0:0:0:0:1]:99/": Target("https", "[::1]", 99),
    "https://[::FFFF:127.0.0.1]/": Target("https", "[::ffff:7f00:1]", 443),
    "https://bücher.example/": Target("https", "xn--bcher-kva.example", 443),
    "https://BÜCHER.example/": Target("https", "xn--bcher-kva.example", 443),
    "https://xn--bcher-kva.example/": Target("https", "xn--bcher-kva.example", 443),
    "https://例え.テスト/パス": Target("https", "xn--r8jz45g.xn--zckzah", 443),
    "https://ｅｘａｍｐｌｅ。com/": Target("https", "example.com", 443),
    "https://1.example.com": Target("https", "1.example.com", 443),
}

REFUSED = {
    "": "form",
    "example.com": "form",
    "//example.com": "form",
    "https:example.com": "form",
    "https:/example.com": "form",
    "https://": "host name",
    "https:///x": "host name",
    "https://?x": "host name",
    "ftp://example.com": "scheme",
    "file:///etc/passwd": "scheme",
    "javascript://example.com/%0aalert(1)": "scheme",
    "gopher://127.0.0.1:6379/_": "scheme",
    "https://user:secret@example.com": "credentials",
    "https://example.com@evil.test": "credentials",
    "https://example.com:80@evil.test/": "credentials",
    "https://evil.test\\@example.com": "backslash",
    "https:\\\\example.com": "backslash",
    " https://example.com": "white space",
    "https://example.com/a b": "white space",
    "https://exa\tmple.com": "white space",
    "https://example.com\n": "white space",
    "https://example.com\r\nHost: evil.test": "white space",
    "https://example.com\x00.evil.test": "white space",
    "https://example.com\u2028": "white space",
    "https://example.com\u00a0": "white space",
    "https://exam\u200bple.com": "white space",
    "https://\ud800.example": "white space",
    "https://example.com:": "port",
    "https://example.com:0": "port",
    "https://example.com:65536": "port",
    "https://example.com:99999999999999999999": "port",
    "https://example.com:80:80": "port",
    "https://example.com:+80": "port",
    "https://example.com:８０": "port",
    "https://a..b": "host name",
    "https://.example.com": "host name",
    "https://example.com..": "host name",
    "https://.": "host name",
    "https://-a.example": "host name",
    "https://a-.example": "host name",
    "https://exa%6dple.com": "host name",
    "https://exa*mple.com": "host name",
    "https://*.example.com": "host name",
    "https://example.com,evil.test": "host name",
    "https://" + "a" * 64 + ".example": "host name",
    "https://" + "a." * 127 + "example": "253",
    "https://127.1": "unusual",
    "https://2130706433": "unusual",
    "https://0x7f000001": "unusual",
    "https://0x7f.1": "unusual",
    "https://127.0.0.0x1": "unusual",
    "https://017700000001": "unusual",
    "https://127.0.0.01": "unusual",
    "https://256.0.0.1": "unusual",
    "https://1.2.3.4.5": "unusual",
    "https://example.1": "unusual",
    "https://[::1": "IPv6",
    "https://[::1%25eth0]": "IPv6",
    "https://[127.0.0.1]": "IPv6",
    "https://[]": "IPv6",
    "https://[::1]x": "port follows",
    "https://[::1]evil.test": "port follows",
    "https://::1": "port",
    "https://straße.example": "differently",
    "https://ας.example": "differently",
    "https://℀.example": "host name",
    "https://example.com/" + "x" * URL_CHARS_MAX: "characters",
}


@pytest.mark.parametrize(("url", "target"), TAKEN.items())
def test_a_well_formed_url_is_read(url: str, target: Target) -> None:
    assert parse_url(url) == target
    assert url_host(url) == target.host


@pytest.mark.parametrize(("url", "word"), REFUSED.items())
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str, word: str) -> None:
    with pytest.raises(ValueError, match=word) as refusal:
        parse_url(url)
    assert "secret" not in str(refusal.value)


@settings(max_examples=400)
@given(urls)
def test_the_standard_library_reads_the_same_host_wherever_a_url_is_taken(url: str) -> None:
    try:
        target = parse_url(url)
    except ValueError:
        return
    other = urlsplit(url)
    assert (other.hostname or "").removesuffix(".") == target.host.strip("[]")
    assert other.port in (None, target.port)
    assert other.username is None


def read(url: str) -> Target | str:
    try:
        return parse_url(url)
    except ValueError as error:
        return str(error)


@settings(max_examples=400)
@given(urls.filter(lambda url: url.startswith("http")))
def test_the_case_of_the_scheme_changes_nothing(url: str) -> None:
    """Plain lower-case URLs are read in one go, others step by step: both must answer alike."""
    assert read(url) == read(url.replace("http", "hTTp", 1))


@given(st.one_of(st.sampled_from([*TAKEN, *REFUSED]), st.text(max_size=40)))
def test_reading_a_host_twice_changes_nothing(text: str) -> None:
    host_part = text.partition("://")[2] or text
    try:
        host = ascii_host(host_part)
    except ValueError:
        return
    assert host.isascii()
    assert ascii_host(host) == host


@pytest.mark.parametrize(
    ("host", "address"), [("1.2.3.4", True), ("[::1]", True), ("1.2.3.example", False), ("a", False)]
)
def test_an_address_is_told_from_a_name(host: str, address: bool) -> None:
    assert is_address(host) is address
