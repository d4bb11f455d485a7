"""The user agent filter of HTTPS edge routes (SPEC 2.9), with RE2 patterns.

The patterns are compiled as Envoy compiles them: Envoy reads patterns and headers byte by byte (Latin-1).
"""

from collections.abc import Mapping
from typing import Annotated, Any

from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges import match_costs, user_agents
from chalicelib.model.edges.match_costs import Uncompilable
from chalicelib.model.edges.modules.user_agent_filter import MODULE, UserAgentModule
from chalicelib.model.edges.user_agents import MAX_COST
from chalicelib.schema.rules import After, Before, WithData, entries, if_null, max_bytes, max_encoded

_MAX_LIST = 4608  # the most characters in a list of patterns, so that a request spends at most 1 s on compiling them


def _check_pattern(pattern: str) -> str:
    try:
        match_costs.compile_pattern(pattern)
    except Uncompilable as error:
        raise ValueError(f"must be a valid RE2 regular expression: {error}") from None
    return pattern


def _reject_duplicate_names(patterns: list[str]) -> list[str]:
    names = [name for pattern in patterns for name in match_costs.compile_pattern(pattern).groupindex]
    if len({*names}) < len(names):
        raise ValueError("must not have two groups with the same name")
    return patterns


def _check_cost(patterns: list[str], above: Mapping[str, Any]) -> list[str]:
    """Return the patterns. Raises ValueError if RE2 needs too much time to match a header with them.

    The patterns of `deny` are checked together with the patterns of `allow`, because the limit is for both lists.
    `above` contains the patterns of `allow` if they are valid.
    """
    allow = above.get("allow", [])
    try:
        cost = user_agents.matching_cost(UserAgentModule(allow=allow, deny=patterns))
    except Uncompilable as error:
        raise ValueError(f"must be patterns that RE2 can compile together: {error}") from None
    if cost > MAX_COST:
        together = ", together with allow," if allow else ""
        raise ValueError(f"must{together} cost at most {MAX_COST} RE2 instructions per byte of the header, not {cost}")
    return patterns


_SHORT = max_encoded(_MAX_LIST)
Pattern = Annotated[str, max_bytes(512), After(_check_pattern, {"format": "re2"})]
Patterns = Annotated[list[Pattern], entries(0, 100), if_null([]), Before(_SHORT.check, _SHORT.json_schema)]


class UserAgentFilter(Enabled):
    """Lets requests pass, or refuses them, by their User-Agent header. Several headers are joined with commas.

    Patterns and header are read byte by byte (Latin-1). For a pattern, a character that is not ASCII is several
    characters, one for each byte of its UTF-8, and `\\x{…}` is at most `\\x{ff}`.

    A request passes if a pattern of `allow` is found in the header, or if no pattern of `deny` is. So `allow` makes
    exceptions from `deny`, and has no effect without it: add `.*` to `deny` to refuse all other requests. A request
    without the header passes only if a pattern of `allow` matches the empty text, as `^$` does. A header of more than
    512 bytes is answered 431.

    Both lists together may need at most 300 instructions of RE2 for each byte of the header. Patterns that are only
    words, such as `(?i)bot|crawler`, together need few instructions. Each other pattern needs as many instructions as
    its compiled program has.
    """

    allow: Annotated[Patterns, After(_reject_duplicate_names), WithData(_check_cost)] = []
    f"""Regular expressions (RE2). A request passes if one is found in its User-Agent, whatever `deny` contains.
    At most {_MAX_LIST:,} characters together as JSON in ASCII, with each quote and backslash counted twice."""

    deny: Annotated[Patterns, WithData(_check_cost)] = []
    f"""Regular expressions (RE2). A request is refused if one is found in its User-Agent.
    At most {_MAX_LIST:,} characters together as JSON in ASCII, with each quote and backslash counted twice."""


MODULES = tuple(
    Module(
        path=path,
        shape=UserAgentFilter,
        stored=MODULE.stored,
    )
    for path in MODULE.paths
)
