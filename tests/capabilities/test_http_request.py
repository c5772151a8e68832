"""``http.request`` against real servers on loopback; a test lifts the private-address refusal for its own alone."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.domain.evaluation import apply_checks
from tests.capabilities.fetching import failure, fetch, refusal, towards
from tests.capabilities.servers import Names, answer, certificate, redirect, routes, serving
from tests.capabilities.support import desk


def test_a_get_returns_status_headers_and_text() -> None:
    async def scenario() -> None:
        body = "grüße".encode()
        headers = ("Content-Type: text/plain; charset=utf-8", "X-A: 1", "X-A: 2", "Set-Cookie: session=secret")
        async with serving(answer(body, "200 OK", *headers)) as server:
            output = await fetch(towards(server), server.url("/p?q=1"), headers={"accept": "text/plain"})
            assert output == {
                "status": 200,
                "url": server.url("/p?q=1"),
                "headers": {"content-type": "text/plain; charset=utf-8", "x-a": "1, 2", "content-length": "7"},
                "body": "grüße",
                "bytes": 7,
                "charset": "utf-8",
                "exact": True,
                "json": None,
                "redirects": [],
            }
            head = server.requests[0].lower()
            assert head.startswith("get /p?q=1 http/1.1\r\n")
            assert f"host: 127.0.0.1:{server.port}\r\n" in head
            assert "accept: text/plain\r\n" in head
            assert "cookie" not in head and "authorization" not in head

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "name", ["Authorization", "authorization", "Cookie", "Proxy-Authorization", "Host", "X-Api-Key"]
)
def test_a_plan_cannot_set_a_header_that_carries_a_credential(name: str) -> None:
    from chaoscore.domain.schema import schema_faults

    schema = desk().capability("http.request").capability.input_schema
    assert schema_faults({"url": "https://a/", "headers": {name: "x"}}, schema)
    assert schema_faults({"url": "https://a/", "headers": {"accept": "a\r\nCookie: x"}}, schema)


def test_json_is_parsed_when_the_server_calls_it_json() -> None:
    async def scenario() -> None:
        table = {
            "/good": answer(b'{"items": [{"id": 7}]}', "200 OK", "Content-Type: application/json"),
            "/ld": answer(b"[1]", "200 OK", "Content-Type: application/ld+json; charset=utf-8"),
            "/bad": answer(b"{nope", "200 OK", "Content-Type: application/json"),
            "/nan": answer(b"NaN", "200 OK", "Content-Type: application/json"),
            "/huge": answer(b"1e999", "200 OK", "Content-Type: application/json"),
            "/deep": answer(b"[" * 100_000, "200 OK", "Content-Type: application/json"),
            "/nested": answer(b"[" * 100 + b"]" * 100, "200 OK", "Content-Type: application/json"),
            "/half": answer(b'"\\ud800"', "200 OK", "Content-Type: application/json"),
            "/text": answer(b"[1]", "200 OK", "Content-Type: text/plain"),
        }
        expected = {"/good": {"items": [{"id": 7}]}, "/ld": [1], "/half": "\ufffd"}
        async with serving(routes(table)) as server:
            for path in table:
                output = await fetch(towards(server), server.url(path))
                assert output["json"] == expected.get(path), path

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "content_type", "text", "exact"),
    [
        ("é".encode("latin-1"), "text/html; charset=ISO-8859-1", "é", True),
        ("漢字".encode("gb18030"), "text/html; charset=gb18030", "漢字", True),
        ("x".encode("utf-16"), "text/html", "x", True),
        (b"\xef\xbb\xbfx", "text/html", "x", True),
        (b"a\xffb", "text/html; charset=utf-8", "a\ufffdb", False),
        (b"x", 'text/html; charset="utf-8"', "x", True),
        (b"zzz", "text/html; charset=zlib_codec", "zzz", True),
        (b"xn--", "text/html; charset=punycode", "xn--", True),
        (b"\x89PNG\r\n\x1a\n\x00", "image/png", "\ufffdPNG\r\n\x1a\n\x00", False),
    ],
)
def test_the_body_is_read_in_its_charset_and_losses_are_told(
    body: bytes, content_type: str, text: str, exact: bool
) -> None:
    async def scenario() -> None:
        async with serving(answer(body, "200 OK", f"Content-Type: {content_type}")) as server:
            output = await fetch(towards(server), server.url())
            assert (output["body"], output["exact"]) == (text, exact)

    asyncio.run(scenario())


def test_an_error_status_fails_by_default_and_can_be_checked_by_the_plan() -> None:
    async def scenario() -> None:
        async with serving(answer(b"gone", "410 Gone")) as server:
            output = await fetch(towards(server), server.url())
            checks = desk().capability("http.request").capability.default_expect
            assert [check.path for check in checks] == ["/status"]
            assert not all(result.passed for result in apply_checks(checks, output))
            assert output["body"] == "gone"

    asyncio.run(scenario())


# -- redirects -------------------------------------------------------------------------------------------------


def test_every_redirect_is_put_to_the_policy_and_recorded() -> None:
    async def scenario() -> None:
        table = {"/a": redirect("/b", "301 Moved"), "/b": redirect("c?x", "307 Temporary"), "/c?x": answer(b"end")}
        async with serving(routes(table)) as server:
            fetcher = towards(server)
            output = await fetch(fetcher, server.url("/a"))
            assert (output["body"], output["url"]) == ("end", server.url("/c?x"))
            assert output["redirects"] == [server.url("/a"), server.url("/b")]
            assert fetcher.asked == [server.url("/a"), server.url("/b"), server.url("/c?x")]

    asyncio.run(scenario())


def test_a_redirect_that_the_policy_denies_is_not_requested() -> None:
    async def scenario() -> None:
        async with serving(answer(b"secret")) as hidden, serving(redirect(hidden.url("/forbidden"))) as server:
            fetcher = desk(
                private_hosts=(f"127.0.0.1:{server.port}", f"127.0.0.1:{hidden.port}"), denied_words=("forbidden",)
            )
            assert (await refusal(fetcher, server.url())).code == "DENIED_BY_POLICY"
            assert hidden.connections == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://metadata.test/",
        "http://both.test/",
    ],
)
def test_a_redirect_from_an_allowed_server_to_a_private_address_is_refused(location: str) -> None:
    async def scenario() -> None:
        names = Names({"metadata.test": [["169.254.169.254"]], "both.test": [["93.184.215.14", "10.1.2.3"]]})
        async with serving(redirect(location)) as server:
            error = await refusal(towards(server, resolver=names), server.url())
            assert error.code == "HTTP_ADDRESS_REFUSED"

    asyncio.run(scenario())


def test_lifting_one_port_does_not_lift_another_of_the_same_host() -> None:
    async def scenario() -> None:
        async with serving(answer(b"secret")) as other, serving(redirect(other.url())) as server:
            for target in (other.url(), other.url(host="localhost"), other.url(host="127.0.0.2")):
                assert (await refusal(towards(server), target)).code == "HTTP_ADDRESS_REFUSED"
            error = await refusal(towards(server), server.url())
            assert error.code == "HTTP_ADDRESS_REFUSED"
            assert f"127.0.0.1:{other.port}" in error.message
            assert other.connections == 0

    asyncio.run(scenario())


def test_redirects_are_bounded_and_go_nowhere_else_than_http() -> None:
    async def scenario() -> None:
        table = {
            "/loop": redirect("/loop"),
            "/file": redirect("file:///etc/passwd"),
            "/none": answer(b"x", "302 Found"),
        }
        async with serving(routes(table)) as server:
            error = await failure(towards(server, HttpOptions(redirects_max=3)), server.url("/loop"))
            assert (error.code, len(server.requests)) == ("HTTP_REDIRECTS", 4)
            assert (await refusal(towards(server), server.url("/file"))).code == "HTTP_URL_REFUSED"
            assert (await fetch(towards(server), server.url("/none")))["status"] == 302

    asyncio.run(scenario())


# -- names and addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "0.0.0.0", "not an address"])
def test_a_name_that_resolves_to_a_private_address_is_refused_before_any_connection(address: str) -> None:
    async def scenario() -> None:
        async with serving(answer(b"secret")) as server:
            fetcher = desk(resolver=Names({"innocent.test": [[address]]}))
            error = await refusal(fetcher, server.url(host="innocent.test"))
            assert (error.code, server.connections) == ("HTTP_ADDRESS_REFUSED", 0)

    asyncio.run(scenario())


def test_one_private_address_among_public_ones_refuses_them_all() -> None:
    async def scenario() -> None:
        async with serving(answer(b"secret")) as server:
            names = Names({"mixed.test": [["93.184.215.14", "127.0.0.1"]]})
            assert (await refusal(desk(resolver=names), server.url(host="mixed.test"))).code == "HTTP_ADDRESS_REFUSED"
            assert server.connections == 0

    asyncio.run(scenario())


def test_a_name_is_resolved_once_and_the_checked_address_is_the_one_connected_to() -> None:
    async def scenario() -> None:
        async with serving(answer(b"first")) as first, serving(answer(b"second"), host="127.0.0.2") as second:
            # The first answer leads to one server, every later one to another: as a rebinding name does.
            names = Names({"rebind.test": [["127.0.0.1"], ["127.0.0.2"]]})
            fetcher = desk(resolver=names, private_hosts=(f"rebind.test:{first.port}",))
            output = await fetch(fetcher, first.url(host="rebind.test"))
            assert output["body"] == "first"
            assert names.asked == [("rebind.test", first.port)]
            assert f"host: rebind.test:{first.port}\r\n" in first.requests[0].lower()
            assert second.connections == 0

    asyncio.run(scenario())


def test_a_name_that_turns_private_between_two_hops_is_refused_at_the_second() -> None:
    async def scenario() -> None:
        async with serving(redirect("/again")) as server:
            # The pair is lifted, yet no name may lead to a link-local address: that is where clouds keep credentials.
            names = Names({"rebind.test": [["127.0.0.1"], ["169.254.169.254"]]})
            fetcher = desk(resolver=names, private_hosts=(f"rebind.test:{server.port}",))
            error = await refusal(fetcher, server.url(host="rebind.test"))
            assert (error.code, "169.254.169.254" in error.message) == ("HTTP_ADDRESS_REFUSED", True)
            assert len(server.requests) == 1

    asyncio.run(scenario())


def test_a_second_address_is_tried_when_the_first_does_not_answer() -> None:
    async def scenario() -> None:
        async with serving(answer(b"here")) as server:
            names = Names({"two.test": [["127.0.0.9", "127.0.0.1"]]})
            fetcher = desk(resolver=names, private_hosts=(f"two.test:{server.port}",))
            assert (await fetch(fetcher, server.url(host="two.test")))["body"] == "here"

    asyncio.run(scenario())


def test_an_unknown_name_and_a_closed_port_are_certain_to_have_done_nothing() -> None:
    async def scenario() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        fetcher = desk(resolver=Names({"empty.test": [[]]}), private_hosts=(f"127.0.0.1:{port}",))
        for url in (f"http://127.0.0.1:{port}/", "http://unknown.test/", "http://empty.test/"):
            assert (await refusal(fetcher, url)).code == "HTTP_UNREACHABLE"

    asyncio.run(scenario())


def test_the_systems_resolver_is_checked_too() -> None:
    assert desk().refusal("http.request", url="http://localhost:1/").code == "HTTP_ADDRESS_REFUSED"


def test_no_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving(answer(b"proxied")) as proxy, serving(answer(b"direct")) as server:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
                monkeypatch.setenv(name, proxy.url())
            assert (await fetch(towards(server), server.url()))["body"] == "direct"
            assert proxy.connections == 0

    asyncio.run(scenario())


def test_a_proxy_that_the_operator_names_is_used_and_gets_the_name() -> None:
    async def scenario() -> None:
        async with serving(answer(b"proxied")) as proxy:
            options = HttpOptions(proxy=f"http://user:pa%40ss@127.0.0.1:{proxy.port}")
            fetcher = desk(http=options, resolver=Names({}))
            assert (await fetch(fetcher, "http://public.test/x"))["body"] == "proxied"
            assert proxy.requests[0].startswith("GET http://public.test/x HTTP/1.1\r\n")
            assert "Proxy-Authorization: Basic dXNlcjpwYUBzcw==" in proxy.requests[0]
            assert (await refusal(fetcher, "http://169.254.169.254/")).code == "HTTP_ADDRESS_REFUSED"

    asyncio.run(scenario())


# -- TLS -------------------------------------------------------------------------------------------------------


def test_tls_is_verified_against_the_name_while_the_address_is_pinned(tmp_path: Path) -> None:
    async def scenario() -> None:
        context, authority = certificate(tmp_path, "good.test")
        names = Names({"good.test": [["127.0.0.1"]], "wrong.test": [["127.0.0.1"]]})
        async with serving(answer(b"safe"), tls=context) as server:
            lifted = tuple(f"{host}:{server.port}" for host in ("good.test", "wrong.test", "127.0.0.1"))
            trusting = desk(http=HttpOptions(ca_file=str(authority)), resolver=names, private_hosts=lifted)
            good = await fetch(trusting, server.url(host="good.test", scheme="https"))
            assert good["body"] == "safe"
            for host in ("wrong.test", "127.0.0.1"):
                error = await refusal(trusting, server.url(host=host, scheme="https"))
                assert (error.code, "certificate" in error.message) == ("HTTP_UNREACHABLE", True)
            suspicious = desk(resolver=names, private_hosts=lifted)
            error = await refusal(suspicious, server.url(host="good.test", scheme="https"))
            assert (error.code, "certificate" in error.message) == ("HTTP_UNREACHABLE", True)
            assert len(server.requests) == 1

    asyncio.run(scenario())


def test_an_expired_certificate_and_plain_text_behind_https_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        context, authority = certificate(tmp_path, "old.test", days=-1)
        names = Names({"old.test": [["127.0.0.1"]]})
        async with serving(answer(b"x"), tls=context) as expired, serving(answer(b"x")) as plain:
            lifted = (f"old.test:{expired.port}", f"old.test:{plain.port}")
            options = HttpOptions(ca_file=str(authority), connect_seconds=0.5)
            fetcher = desk(http=options, resolver=names, private_hosts=lifted)
            error = await refusal(fetcher, expired.url(host="old.test", scheme="https"))
            assert "expired" in error.message
            assert (await refusal(fetcher, plain.url(host="old.test", scheme="https"))).code == "HTTP_UNREACHABLE"

    asyncio.run(scenario())


def test_a_redirect_from_https_to_http_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        context, authority = certificate(tmp_path, "good.test")
        async with serving(answer(b"x")) as plain, serving(redirect(plain.url()), tls=context) as server:
            fetcher = desk(
                http=HttpOptions(ca_file=str(authority)),
                resolver=Names({"good.test": [["127.0.0.1"]]}),
                private_hosts=(f"good.test:{server.port}", f"127.0.0.1:{plain.port}"),
            )
            error = await refusal(fetcher, server.url(host="good.test", scheme="https"))
            assert (error.code, plain.connections) == ("HTTP_URL_REFUSED", 0)

    asyncio.run(scenario())
