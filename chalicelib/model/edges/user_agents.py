"""The RE2 expressions of a user agent filter, and their worst cost.

The worst cost matters, not the average cost, because visitors choose the header.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from chalicelib.model.edges import match_costs
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule

MAX_BYTES = 512  # the most bytes of a User-Agent header that are matched with patterns
MAX_COST = 300  # the most RE2 instructions of a filter per byte of a User-Agent header
_STEP = 40  # instructions per byte that an expression costs in addition to the cost of the patterns in it
_MAX_WORD = 64
_LITERAL = r"""(?:[A-Za-z0-9 _/,:;@#%&=!"'<>~`-]|\\[!-/:-@\[-`{-~])"""
_ALTERNATIVES = rf"{_LITERAL}+(?:\|{_LITERAL}+)*"
_WORDS = rf"(?P<flag>\(\?i\))?(?:\((?:\?:)?(?P<within>{_ALTERNATIVES})\)|(?P<plain>{_ALTERNATIVES}))"
_WORD = rf"{_LITERAL}+"


def build_expressions(patterns: Sequence[str]) -> list[str]:
    """Return RE2 expressions for a list of patterns. At least one expression matches a whole text if a pattern is found
    in the text.

    All plain words share one expression, which RE2 compiles to a tree. The other patterns share a second expression.
    Patterns with named groups get separate expressions, because an expression cannot contain a group's name twice.
    """
    words, other_patterns = _split_words(patterns)
    named = [pattern for pattern in other_patterns if "(?P<" in pattern or "(?<" in pattern]
    shared = [pattern for pattern in other_patterns if pattern not in named]
    groups = [_join_words(words), [_close_quote(pattern) for pattern in shared]]
    groups += [[_close_quote(pattern)] for pattern in named]
    return [rf"\C*(?:{'|'.join(f'(?:{pattern})' for pattern in group)})\C*" for group in groups if group]


def matching_cost(rules: UserAgentModule) -> int:
    """Return the most RE2 instructions that a filter costs per byte of a User-Agent header. Raises Uncompilable."""
    return _cost(tuple(rules.allow)) + _cost(tuple(rules.deny))


@lru_cache(4096)
def _cost(patterns: tuple[str, ...]) -> int:
    words, other_patterns = _split_words(patterns)
    expressions = build_expressions(patterns)
    programs = sum(match_costs.program_size(expression) for expression in expressions[any(words.values()) :])
    # The cost of plain words: for each byte, RE2 runs one instruction for each different first letter of the words, and
    # one for each partial match. There are at most as many partial matches as the longest word has letters.
    trees = sum(len({word[0] for word in tree}) + max(map(len, tree)) for tree in words.values() if tree)
    return _STEP * len(expressions) + trees + min(programs, sum(map(match_costs.matching_cost, other_patterns)))


def _split_words(patterns: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the plain words by their flag ("i" to ignore case, or ""), and the patterns that are not plain words."""
    words: dict[str, set[str]] = {"": set(), "i": set()}
    other_patterns = []
    for pattern in patterns:
        match = re.fullmatch(_WORDS, pattern)
        alternatives = re.findall(_WORD, match["within"] or match["plain"]) if match else []
        if alternatives and max(map(len, alternatives)) <= _MAX_WORD:
            words["i" if match and match["flag"] else ""].update(re.sub(r"\\(.)", r"\1", word) for word in alternatives)
        else:
            other_patterns.append(pattern)
    return {flag: sorted(group) for flag, group in words.items()}, other_patterns


def _join_words(words: dict[str, list[str]]) -> list[str]:
    return [f"(?{flag}:{'|'.join(map(re.escape, group))})" for flag, group in words.items() if group]


def _close_quote(pattern: str) -> str:
    r"""Return a pattern with its last \Q closed. An open \Q would quote the rest of the expression."""
    without = re.sub(r"\\Q(?s:.*?)\\E|\\[^Q]", "", pattern)
    return rf"{pattern}\E" if r"\Q" in without else pattern
