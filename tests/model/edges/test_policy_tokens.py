"""The tokens of policy expressions: kinds, places, escape sequences, and bounds."""

import pytest

from chalicelib.model.edges import policy_tokens
from chalicelib.model.edges.policy_tokens import Token, UnsupportedPolicy


def test_tokens_have_kinds_and_places() -> None:
    assert policy_tokens.tokenize("a.b_1 in ['x'] // no\n >=-0x1F!index") == [
        Token("name", "a.b_1", 0),
        Token("sign", "in", 6),
        Token("sign", "[", 9),
        Token("string", "'x'", 10),
        Token("sign", "]", 13),
        Token("sign", ">=", 22),
        Token("integer", "-0x1F", 24),
        Token("sign", "!", 29),
        Token("name", "index", 30),
        Token("end", "", 35),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("''", ""),
        ('"it\'s"', "it's"),
        (r"'\a\b\f\n\r\t\v\\\?\"\'\`'", "\a\b\f\n\r\t\v\\?\"'`"),
        (r"'\x41\X41\u0041\U00000041\101'", "AAAAA"),
        (r"'\xe9\u00e9\U0001F98A\377'", "éé🦊ÿ"),
        (r"'\\x41'", r"\x41"),
        (r"'\1010'", "A0"),
    ],
)
def test_escape_sequences_are_those_of_cel(text: str, value: str) -> None:
    assert policy_tokens.unquote(text) == value


@pytest.mark.parametrize("text", [r"\q", r"\x4", r"\u12", r"\U0011FFFF", r"\ud800", r"\400", r"\9", r"\0", r"\e"])
def test_other_escape_sequences_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedPolicy, match="is not an escape sequence"):
        policy_tokens.unquote(f"'{text}'")


@pytest.mark.parametrize(
    ("largest", "larger", "problem"),
    [
        ("||".join(["true"] * 501), "||".join(["true"] * 502), "must have at most 500 operators."),
        ("! " * 32 + "true", "! " * 33 + "true", "must be at most 32 levels deep."),
        ("(" * 32 + ")" * 32, "(" * 33 + ")" * 33, "must be at most 32 levels deep."),
        ("[" * 32, "f([" * 17, "must be at most 32 levels deep."),
        ("!(" * 16 + ")" * 16 + "(" * 32, "!(" * 16 + ")" * 15 + "(" * 31, "must be at most 32 levels deep."),
        ("()" * 100_000, "(" * 100_000, "must be at most 32 levels deep."),
    ],
)
def test_expressions_are_bounded(largest: str, larger: str, problem: str) -> None:
    policy_tokens.tokenize(largest)
    with pytest.raises(UnsupportedPolicy) as caught:
        policy_tokens.tokenize(larger)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("conn.client_ip in ['a', 'b'] || inCidrRange(conn.client_ip, 'c')", 3),
        ("conn.server_region in ['a', 'b'] && 'c' == conn.client_ip", 1),
        ("'a' == conn.client_ip && conn.server_region != 'b'", 1),
    ],
)
def test_addresses_are_counted_and_regions_are_not(text: str, count: int) -> None:
    assert policy_tokens.count_addresses(policy_tokens.tokenize(text)) == count
