"""Where a request may go: URLs that are read one way only, and addresses that are public."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.adapters.capabilities.http.addresses import refusal
from chaoscore.adapters.capabilities.http.target import parse_target, redirect_target
from chaoscore.domain.errors import NotPerformed


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "93.184.215.14", "172.15.255.255", "172.32.0.0", "100.128.0.0", "223.255.255.255"),
        *("2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "64:ff9b::8.8.8.8", "2001:4860:4860::8888"),
    ],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "internal"),
        ("127.255.255.254", "internal"),
        ("10.0.0.1", "internal"),
        ("172.16.0.1", "internal"),
        ("172.31.255.255", "internal"),
        ("192.168.1.1", "internal"),
        ("100.64.0.1", "internal"),
        ("198.18.0.1", "internal"),
        ("::1", "internal"),
        ("fd00:ec2::254", "internal"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("0.0.0.0", "never"),
        ("0.1.2.3", "never"),
        ("192.0.0.1", "never"),
        ("192.0.2.1", "never"),
        ("198.51.100.1", "never"),
        ("203.0.113.1", "never"),
        ("192.88.99.1", "never"),
        ("224.0.0.1", "never"),
        ("239.255.255.255", "never"),
        ("240.0.0.1", "never"),
        ("255.255.255.255", "never"),
        ("::", "never"),
        ("::ffff:127.0.0.1", "never"),
        ("::ffff:8.8.8.8", "never"),
        ("::127.0.0.1", "never"),
        ("64:ff9b::127.0.0.1", "never"),
        ("64:ff9b::10.0.0.1", "never"),
        ("64:ff9b::169.254.169.254", "never"),
        ("64:ff9b:1::8.8.8.8", "never"),
        ("2002:7f00:1::", "never"),
        ("2002:808:808::", "never"),
        ("2001::1", "never"),
        ("2001:db8::1", "never"),
        ("3fff::1", "never"),
        ("ff02::1", "never"),
        ("fec0::1", "never"),
        ("100::1", "never"),
        ("5f00::1", "never"),
        ("fe80::1%eth0", "never"),
        ("localhost", "never"),
        ("", "never"),
    ],
)
def test_every_other_address_is_refused(address: str, kind: str) -> None:
    found = refusal(address)
    assert found is not None
    assert found.kind == kind


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_nothing_that_python_calls_private_is_public_to_us(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast:
        embedded = isinstance(address, ipaddress.IPv6Address) and address in ipaddress.ip_network("64:ff9b::/96")
        assert refusal(str(address)) is not None or embedded


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_no_way_around(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    assert refusal(str(ipaddress.IPv6Address(0xFFFF_0000_0000 + number))) is not None
    assert refusal(str(ipaddress.IPv6Address((0x2002 << 112) + (number << 80)))) is not None
    nat64 = refusal(str(ipaddress.IPv6Address((0x64FF9B << 96) + number)))
    assert (nat64 is None) == (refusal(str(inner)) is None)


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1.5/",
        "http://1.2.3.04/",
        "http://999.1.1.1/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1/",
        "http://127.0.0.1:0/",
        "http://a:99999/",
        "http://a:b/",
        "http://user@a/",
        "http://user:pass-word@a/",
        "http://a@b@c/",
        "http://a\\@b/",
        "http://a\\b/",
        "http://a b/",
        "http://a\tb/",
        "http://a/\r\nX: y",
        " http://a/",
        "http://a%2eb/",
        "http://%31%32%37.0.0.1/",
        "http://a..b/",
        "http://-/",
        "http:///path",
        "http:a",
        "//a/",
        "ftp://a/",
        "file:///etc/passwd",
        "gopher://a/",
        "javascript:alert(1)",
        "HTTP+UNIX://a/",
        "http://" + "a" * 300 + "/",
        "http://a/" + "x" * 5_000,
        "http://a/\udc80",
        "",
    ],
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(NotPerformed) as error:
        parse_target(url)
    assert error.value.code == "HTTP_URL_REFUSED"
    assert "pass-word" not in error.value.message


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "path"),
    [
        ("https://example.com", "example.com", 443, "example.com", "/"),
        ("HTTPS://EXAMPLE.com:443/a?b=c#d", "example.com", 443, "example.com", "/a?b=c"),
        ("http://example.com:8080?q", "example.com", 8080, "example.com:8080", "/?q"),
        ("http://example.com./", "example.com", 80, "example.com", "/"),
        ("https://bücher.example/", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/"),
        ("https://аpple.com/", "xn--pple-43d.com", 443, "xn--pple-43d.com", "/"),
        ("http://[2606:4700::1111]:81/", "2606:4700::1111", 81, "[2606:4700::1111]:81", "/"),
        ("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1", "/"),
        ("http://a/ü?ä=|#x", "a", 80, "a", "/%C3%BC?%C3%A4=%7C"),
        ("http://a/%2e%2e/x;y?z=%00", "a", 80, "a", "/%2e%2e/x;y?z=%00"),
    ],
)
def test_a_url_becomes_one_target(url: str, host: str, port: int, authority: str, path: str) -> None:
    target = parse_target(url)
    assert (target.host, target.port, target.authority, target.path) == (host, port, authority, path)


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b?c", "https://a.example/b?c"),
        ("b", "https://a.example/x/b"),
        ("//b.example/", "https://b.example/"),
        ("https://b.example/#f", "https://b.example/"),
        ("?q", "https://a.example/x/y?q"),
    ],
)
def test_a_redirect_is_relative_to_where_it_came_from(location: str, url: str) -> None:
    assert redirect_target(parse_target("https://a.example/x/y"), location).url == url


@pytest.mark.parametrize(
    "location",
    [
        "http://a.example/",
        "ftp://a.example/",
        "file:///etc/passwd",
        "https://u:p@b/",
        "\\\\b\\c",
        "https://b\\@c/",
        "http://[::1",
    ],
)
def test_a_redirect_to_something_else_than_a_safe_url_is_refused(location: str) -> None:
    with pytest.raises(NotPerformed) as error:
        redirect_target(parse_target("https://a.example/x/y"), location)
    assert error.value.code == "HTTP_URL_REFUSED"
