"""The user agent filter (SPEC 2.9, 4.8) by its own rules: patterns that run in linear time, which RE2 sees to."""

import time

import pytest

from chalicelib.modules import user_agent_filter
from tests.modules.samples import anywhere
from tests.refusals import assert_invalid
from tests.transports import Client

(USER_AGENT_FILTER,) = user_agent_filter.MODULES


def test_patterns_are_kept_as_they_were_sent(admin: Client) -> None:
    address = anywhere(USER_AGENT_FILTER)
    patterns = ["^curl/", "(?i)é+", "[[:alpha:]]+", "a{1,9}", "(?P<name>x)", r"\bbot\b", "^curl/"]
    admin.put(address, {"allow": patterns, "deny": patterns[::-1]})
    assert admin.get(address).json == {"enabled": True, "allow": patterns, "deny": patterns[::-1]}


TOO_LARGE = "must be at most 4608 characters as JSON in ASCII, with each quote and backslash counted twice"
TOO_COSTLY = "must cost at most 300 RE2 instructions per byte of the header, not {}"
UNREADABLE = {
    "(?=Mozilla)": "invalid perl operator: (?=",
    "(?!Mozilla)": "invalid perl operator: (?!",
    "(?<=x)y": "invalid perl operator: (?<=",
    r"(a)\1": r"invalid escape sequence: \1",
    "(?>a+)": "invalid perl operator: (?>",
    "(": "missing ): (",
    "[a": "missing ]: [a",
    "*": "no argument for repetition operator: *",
    "a{1001}": "invalid repetition size: {1001}",
    "((a{100}){100}){100}": "invalid repetition size: {100}",
    r"\pL{1000}" * 50: "pattern too large - compile failed",
    r"\x{10FFFF}": r"invalid escape sequence: \x{10F",
}


def test_what_re2_does_not_read_is_refused_with_its_reason_and_no_word_on_standard_error(
    admin: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    address = anywhere(USER_AGENT_FILTER)
    answer = admin.put(address, {"allow": [*UNREADABLE, "fine"], "deny": ["fine", *UNREADABLE]})
    rules = [f"must be a valid RE2 regular expression: {reason}" for reason in UNREADABLE.values()]
    errors = {f"allow.{index}": rule for index, rule in enumerate(rules)}
    assert_invalid(answer, errors | {f"deny.{index}": rule for index, rule in enumerate(rules, 1)})
    assert admin.get(address).status == 404
    assert capfd.readouterr().err == ""


def test_patterns_that_let_pass_are_one_expression_in_which_each_name_is_of_one_group(admin: Client) -> None:
    patterns = ["(?P<name>x)", "(?P<name>y)"]
    answer = admin.put(anywhere(USER_AGENT_FILTER), {"allow": patterns, "deny": patterns})
    assert_invalid(answer, {"allow": "must not have two groups with the same name"})
    assert admin.put(anywhere(USER_AGENT_FILTER), {"allow": patterns[:1], "deny": patterns}).status == 200


def test_patterns_are_strings_in_an_array(admin: Client) -> None:
    answer = admin.put(anywhere(USER_AGENT_FILTER), {"allow": [1, None, True, ["x"], {}], "deny": "curl"})
    assert_invalid(answer, {**{f"allow.{index}": "must be a string" for index in range(5)}, "deny": "must be an array"})


def test_patterns_are_bounded_in_length_and_number(admin: Client) -> None:
    address = anywhere(USER_AGENT_FILTER)
    answer = admin.put(address, {"allow": ["é" * 256, "é" * 256 + "x"]})
    assert_invalid(answer, {"allow.1": "must be at most 512 bytes of UTF-8"})
    answer = admin.put(address, {"deny": ["x"] * 101})
    assert_invalid(answer, {"deny": "must have at most 100 entries"})
    assert admin.put(address, {"deny": ["x"] * 100}).status == 200
    longest = [f"{number:064}" for number in range(66)] + ["b" * 48]  # brackets, commas, and four quotes for a pattern
    assert admin.put(address, {"allow": longest, "deny": longest}).json["deny"] == longest
    for longer in ([*longest[:66], "b" * 49], ["é" * 41] * 16):
        assert_invalid(admin.put(address, {"allow": longer, "deny": longest}), {"allow": TOO_LARGE})


def test_the_patterns_that_take_longest_to_compile_are_refused_within_a_few_seconds(admin: Client) -> None:
    slowest = ["(?i)" + "\\PL" * 169] * 100
    started = time.process_time()
    assert admin.put(anywhere(USER_AGENT_FILTER), {"allow": slowest, "deny": slowest}).status == 400
    assert admin.put(anywhere(USER_AGENT_FILTER), {"allow": slowest[:8], "deny": slowest[:8]}).status == 400
    assert time.process_time() - started < 6


ONE = "[ab]*a[ab]{%d}X"


@pytest.mark.parametrize(
    "patterns",
    [
        [ONE % 253],
        [f"crawler{number}" for number in range(100)],
        [rf"(?i)crawler{number:02}/\d+\.\d+" for number in range(8)],
        [rf"^Mozilla/5\.0 \(compatible; .*robot{number}" for number in range(20)],
        [rf"^Mozilla/5\.0 \(X11; Linux x86_64; rv:{number}\.0\) Gecko/20100101 Firefox/1$" for number in range(52)],
    ],
    ids=["the worst", "words", "versions", "with a gap", "whole texts"],
)
def test_patterns_that_cost_little_to_match_are_kept(admin: Client, patterns: list[str]) -> None:
    answer = admin.put(anywhere(USER_AGENT_FILTER), {"deny": patterns})
    assert (answer.status, answer.json.get("deny")) == (200, patterns)


@pytest.mark.parametrize(
    ("patterns", "cost"),
    [
        ([ONE % 254], 301),
        ([ONE.replace("X", sign) % 300 for sign in "XYZUVWabcdefghi"], 4607),
        ([("ab" * length) + "a[ab]{45}X" for length in range(6)], 334),
        (["a" * 512], 556),
        (["(?P<a>x)"] * 7, 329),
    ],
)
def test_patterns_that_cost_much_to_match_are_refused(admin: Client, patterns: list[str], cost: int) -> None:
    answer = admin.put(anywhere(USER_AGENT_FILTER), {"deny": patterns})
    assert_invalid(answer, {"deny": TOO_COSTLY.format(cost)})


def test_both_lists_of_a_filter_have_one_bound(admin: Client) -> None:
    address = anywhere(USER_AGENT_FILTER)
    assert admin.put(address, {"allow": [ONE % 103], "deny": [ONE % 103]}).status == 200
    answer = admin.put(address, {"allow": [ONE % 103], "deny": [ONE % 104]})
    assert_invalid(
        answer, {"deny": "must, together with allow, cost at most 300 RE2 instructions per byte of the header, not 301"}
    )
    assert_invalid(admin.put(address, {"allow": [ONE % 254], "deny": []}), {"allow": TOO_COSTLY.format(301)})
