"""The ACL grammar of SPEC 2.3.1 and what its rules permit, against an oracle that shares no line with the code."""

import ipaddress
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.model.ssh import acl

FORMS = "must be bind:<domain>, bind:*.<suffix>, bind:<host>:<port> or bind:<key>=<value>"
KIND = "must be '*' or start with 'bind:'"
PORT = "must end with a port from 1 to 65535"
BRACKETS = "must be bind:<host>:<port>, with an IPv6 address in brackets: bind:[::1]:22"
LABEL = (
    "must be bind:<key>=<value>; the key and the value are each '*', or 1 to 255 bytes of printable text without '*'"
)


@pytest.mark.parametrize(
    "rule",
    [
        "*",
        "bind:example.com",
        "bind:localhost",
        "bind:EXAMPLE.com",
        "bind:xn--mnchen-3ya.example",
        "bind:1.example",
        "bind:" + ".".join(["a" * 63] * 3) + "." + "a" * 61,
        "bind:*.example.com",
        "bind:*.com",
        "bind:example.com:1",
        "bind:example.com:65535",
        "bind:1.tcp.example.com:12345",
        "bind:192.0.2.1:22",
        "bind:[2001:db8::1]:22",
        "bind:[::ffff:192.0.2.1]:22",
        "bind:env=prod",
        "bind:env=*",
        "bind:*=prod",
        "bind:*=*",
        "bind:url=https://example.com/?a=b",
        "bind:größe=ein wort",
        "bind:" + "k" * 255 + "=" + "v" * 255,
    ],
)
def test_a_rule_of_the_grammar_is_accepted_as_it_is(rule: str) -> None:
    assert acl.check(rule) == rule


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("", KIND),
        ("**", KIND),
        ("* ", KIND),
        ("example.com", KIND),
        ("allow:example.com", KIND),
        ("BIND:example.com", KIND),
        (" bind:example.com", KIND),
        ("bind:", FORMS),
        ("bind:*", FORMS),
        ("bind:*.", FORMS),
        ("bind:*example.com", FORMS),
        ("bind:a.*.example.com", FORMS),
        ("bind:*.*.example.com", FORMS),
        ("bind:example.com.", FORMS),
        ("bind:.example.com", FORMS),
        ("bind:a..example.com", FORMS),
        ("bind:-a.example.com", FORMS),
        ("bind:a-.example.com", FORMS),
        ("bind:a_b.example.com", FORMS),
        ("bind:example.com\n", FORMS),
        ("bind:example.com/path", FORMS),
        ("bind:" + "a" * 64 + ".example", FORMS),
        ("bind:" + ".".join(["a" * 63] * 4), FORMS),
        ("bind:192.0.2.1", FORMS),
        ("bind:[::1]", FORMS),
        ("bind:münchen.example", "must have the domain in ASCII form (xn--…)"),
        ("bind:\u212aelvin.example", "must have the domain in ASCII form (xn--…)"),
        ("bind:*.example.com:22", "must not have both a wildcard and a port"),
        ("bind:*:22", "must not have both a wildcard and a port"),
        ("bind:example.com:", PORT),
        ("bind:example.com:*", PORT),
        ("bind:example.com:0", PORT),
        ("bind:example.com:022", PORT),
        ("bind:example.com:65536", PORT),
        ("bind:example.com:99999999999999999999", PORT),
        ("bind:example.com:٢", PORT),
        ("bind:[::1]:", PORT),
        ("bind:192.0.2.256:22", FORMS),
        ("bind:192.0.2.01:22", FORMS),
        ("bind:[192.0.2.1]:22", BRACKETS),
        ("bind:::1", BRACKETS),
        ("bind:2001:db8::1:22", BRACKETS),
        ("bind:[::1%eth0]:22", BRACKETS),
        ("bind:[::g]:22", BRACKETS),
        ("bind:[]:22", BRACKETS),
        ("bind:https://example.com:22", BRACKETS),
        ("bind:=", LABEL),
        ("bind:key=", LABEL),
        ("bind:=value", LABEL),
        ("bind:key=a*", LABEL),
        ("bind:**=value", LABEL),
        ("bind:key= value", LABEL),
        ("bind:key=a\nb", LABEL),
        ("bind:key=\ud800", LABEL),
        ("bind:key=" + "ü" * 128, LABEL),
    ],
)
def test_any_other_rule_is_refused_with_what_would_be_right(rule: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        acl.check(rule)


@pytest.mark.parametrize("rules", [[], ["*"], ["bind:a.example", "*"]])
@pytest.mark.parametrize("target", ["example.com", "*.example.com", "192.0.2.1:22", "env=prod"])
def test_no_rules_at_all_and_the_star_permit_everything(rules: list[str], target: str) -> None:
    assert acl.permits(rules, target)


@pytest.mark.parametrize(
    ("rule", "permitted", "not_permitted"),
    [
        (
            "bind:*.example.com",
            ["*.example.com", "a.example.com", "a.b.example.com", "*.b.example.com", "A.Example.COM"],
            ["example.com", "badexample.com", "a.example.org", "a.example.com:443", "a.example.com.other", "a=b"],
        ),
        ("bind:Example.com", ["example.com", "EXAMPLE.COM"], ["a.example.com", "*.example.com", "example.com:443"]),
        ("bind:example.com:443", ["example.com:443", "EXAMPLE.com:443"], ["example.com:44", "example.com"]),
        ("bind:192.0.2.1:22", ["192.0.2.1:22"], ["192.0.2.1:222", "192.0.2.2:22", "[::ffff:192.0.2.1]:22"]),
        ("bind:[2001:DB8::1]:22", ["[2001:db8:0:0::1]:22"], ["[2001:db8::2]:22", "[2001:db8::1]:23"]),
        ("bind:env=prod", ["env=prod"], ["env=Prod", "Env=prod", "env=production", "env=prod=1"]),
        ("bind:env=*", ["env=prod", "env=a=b"], ["environment=prod", "ENV=prod"]),
        ("bind:*=prod", ["env=prod", "stage=prod"], ["env=test", "env=x=prod"]),
        ("bind:*=*", ["env=prod"], ["prod", "prod.example:1"]),
    ],
)
def test_a_rule_permits_what_it_covers_and_nothing_else(
    rule: str, permitted: list[str], not_permitted: list[str]
) -> None:
    assert [target for target in permitted + not_permitted if acl.permits([rule], target)] == permitted


@pytest.mark.parametrize("rules", [[], ["*"], ["bind:*=*"]])
@pytest.mark.parametrize("target", ["", "*", "192.0.2.1", "example.com.", "bind:a", "*.a:1", "*=b", "a=*", "a="])
def test_what_nobody_can_bind_is_an_error_whatever_the_rules(rules: list[str], target: str) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        acl.permits(rules, target)


# The oracle: a text is looked at label by label, from the right, and never parsed into anything.

ALPHABET = "ab"
parts = st.text(ALPHABET, min_size=1, max_size=2)
domains = st.lists(parts, min_size=1, max_size=3).map(".".join)
wildcards = domains.map("*.{}".format)
ports = st.sampled_from(["1", "2"])
hosts = domains | st.sampled_from(["192.0.2.1", "[::1]", "[0:0::1]", "[::2]"])
addresses = st.tuples(hosts, ports).map(":".join)
labels = st.tuples(parts, parts).map("=".join)
any_labels = st.tuples(parts | st.just("*"), parts | st.just("*")).map("=".join)
targets = domains | wildcards | addresses | labels
rules = st.just("*") | (domains | wildcards | addresses | any_labels).map("bind:{}".format)


def oracle(acl_rules: list[str], target: str) -> bool:
    if acl_rules == []:
        return True
    return any(rule == "*" or allows(rule[5:], target) for rule in acl_rules)


def allows(rule: str, target: str) -> bool:
    if kind(rule) != kind(target):
        return False
    if kind(rule) == "label":
        return all(r in {"*", t} for r, t in zip(rule.split("=", 1), target.split("=", 1), strict=True))
    if kind(rule) == "address":
        return as_address(rule) == as_address(target)
    expected, target_labels = rule.lower().split(".")[::-1], target.lower().split(".")[::-1]
    if expected[-1] != "*":
        return expected == target_labels
    return target_labels[: len(expected) - 1] == expected[:-1] and len(target_labels) >= len(expected)


def kind(text: str) -> str:
    return "label" if "=" in text else "address" if ":" in text else "domain"


def as_address(text: str) -> tuple[object, str]:
    host, port = re.fullmatch(r"(.*):(\d+)", text).groups()  # type: ignore[union-attr]
    return (ipaddress.ip_address(host[1:-1]) if "[" in host else host.lower()), port


@given(st.lists(rules, max_size=4), targets, st.booleans())
@example(["bind:*.a"], "a", False)
@example(["bind:*.a"], "b.A", True)
def test_permits_agrees_with_a_slow_and_obvious_oracle(acl_rules: list[str], target: str, upper: bool) -> None:
    target = target.upper() if upper and "=" not in target else target
    assert acl.permits(acl_rules, target) is oracle(acl_rules, target)


@given(rules)
def test_a_rule_permits_what_is_written_in_it(rule: str) -> None:
    target = rule.removeprefix("bind:")
    if "=" not in target and target != "*":
        assert acl.permits([rule], target)


REAL = re.compile(r"\*|bind:.+", flags=re.DOTALL)


@given(st.text() | st.text("*.:=[]a1 -", max_size=12).map("bind:{}".format) | rules)
def test_any_text_is_accepted_as_it_is_or_refused_in_a_sentence(text: str) -> None:
    try:
        assert acl.check(text) == text
    except ValueError as error:
        assert str(error).startswith("must ")  # noqa: PT017
    else:
        assert REAL.fullmatch(text)
        assert text.isprintable()


@pytest.mark.parametrize(
    ("rule", "bounds", "other_bounds"),
    [
        ("*", ["*"], ["bind:*.example.com", "bind:*=*"]),
        ("bind:a.example.com", ["*", "bind:*.example.com", "bind:A.Example.com"], ["bind:example.com", "bind:*.b.com"]),
        ("bind:*.a.example.com", ["*", "bind:*.example.com", "bind:*.a.example.com"], ["bind:a.example.com"]),
        ("bind:*.example.com", ["bind:*.example.com"], ["bind:*.a.example.com", "bind:example.com", "bind:*=*"]),
        ("bind:example.com", ["bind:example.com"], ["bind:*.example.com", "bind:example.com:22"]),
        ("bind:h.example:22", ["*", "bind:H.example:22"], ["bind:h.example", "bind:*.example", "bind:h.example:23"]),
        ("bind:[::1]:22", ["bind:[0::1]:22"], ["bind:[::2]:22"]),
        ("bind:a=b", ["*", "bind:a=b", "bind:a=*", "bind:*=b", "bind:*=*"], ["bind:A=b", "bind:a=c", "bind:c=*"]),
        ("bind:a=*", ["bind:a=*", "bind:*=*"], ["bind:a=b", "bind:*=b"]),
        ("bind:*=b", ["bind:*=b", "bind:*=*"], ["bind:a=b", "bind:a=*"]),
        ("bind:*=*", ["*", "bind:*=*"], ["bind:a=*", "bind:*=b"]),
    ],
)
def test_a_rule_is_within_another(rule: str, bounds: list[str], other_bounds: list[str]) -> None:
    assert [bound for bound in bounds if not acl.is_within(rule, bound)] == []
    assert [bound for bound in other_bounds if acl.is_within(rule, bound)] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"'' {KIND}"),
        ("bind:a.example,", f"'' {KIND}"),
        ("bind:a.example, bind:b.example", f"' bind:b.example' {KIND}"),
        ("bind:a.example,b.example", f"'b.example' {KIND}"),
        ("bind:a=b,c", f"'c' {KIND}"),
        ("bind:a b", f"'bind:a b' {FORMS}"),
    ],
)
def test_a_text_that_is_no_list_of_rules(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"must be comma-separated rules: ") as error:
        acl.split(text)
    assert str(error.value).endswith(problem)
