"""The policy written again in the most obvious way: lists walked one by one, nothing imported from the product."""

import re

LABEL, OCTET = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", r"(0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])"
URL = re.compile(rf"https?://((?:{LABEL}\.)*{LABEL})\.?(?::([0-9]{{1,5}}))?(?:[/?#][^\x00-\x20\x7f\\]*)?", re.I | re.A)
Policy = dict[str, list[str]]


def host_of(url: str) -> str | None:
    found = URL.fullmatch(url)
    if not found or len(found[1]) > 253 or (found[2] and not 1 <= int(found[2]) <= 65535):
        return None
    host = found[1].lower()
    number = re.fullmatch(r"\d+|0x[0-9a-f]*", host.split(".")[-1], re.A)
    return host if not number or re.fullmatch(rf"{OCTET}(\.{OCTET}){{3}}", host, re.A) else None


def hits(rule: str, name: str) -> bool:
    if rule.startswith("*."):
        return name.endswith(rule[1:]) and not re.fullmatch(r"[\d.]+", name, re.A)
    return name.startswith(rule[:-1]) if rule.endswith(".*") else name == rule


def decide(policy: Policy, name: str, builtin: bool, urls: list[str | None], broken: bool) -> tuple[str, str, set[str]]:
    """Effect, the rule that decides, and every rule that speaks."""

    def rules(key: str, text: str) -> list[str]:
        return [f"{key}[{i}]: {rule}" for i, rule in enumerate(policy[key]) if hits(rule, text)]

    deny, ask, allow = (rules(k, name) for k in ("deniedCapabilities", "requireConfirmationFor", "allowedCapabilities"))
    if not allow:
        (allow if builtin and not policy["allowedCapabilities"] else deny).append("allowedCapabilities: ")
    for host in [None if url is None else host_of(url) or "" for url in urls]:
        found = rules("httpAllowedDomains", host or "")
        if not policy["httpAllowedDomains"] or (host and not found):
            deny.append("httpAllowedDomains: ")
        deny, allow = deny + ["url: "] * (host == ""), allow + found
    effect = "DENY" if deny else "REQUIRE_APPROVAL" if ask or broken else "ALLOW"
    return effect, "policy-unreadable: " if broken and not deny else (deny + ask + allow)[0], {*deny, *ask, *allow}
