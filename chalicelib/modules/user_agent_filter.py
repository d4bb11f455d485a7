"""The user agent filter of HTTPS edge routes (SPEC 2.9): RE2 patterns, since they run on live traffic.

They are compiled as the engine of the live edge does, which reads patterns and headers byte by byte (Latin-1).
"""

from functools import cache
from typing import Annotated, Any

from chalicelib.http.module import Enabled, Module
from chalicelib.model import modules
from chalicelib.schema.rules import After, Before, entries, if_null, max_bytes, max_encoded

_MAX_LIST = 4608  # characters: the worst patterns of that size take a second to compile
_MAX_PROGRAM = 5000  # instructions of a list's patterns: more than its characters, and half of what the engine takes


@cache
def _options() -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False  # which would write the caller's pattern to the log
    options.max_mem = 1024 * 1024
    return options


def _compiled(pattern: str) -> Any:
    import re2

    return re2.compile(pattern.encode(), _options())


def _compiles(pattern: str) -> str:
    import re2

    try:
        _compiled(pattern)
    except re2.error as error:
        raise ValueError(f"must be a regular expression as RE2 reads it: {_reason(error)}") from None
    return pattern


def _small_enough(patterns: list[str]) -> list[str]:
    if sum(_compiled(pattern).programsize for pattern in patterns) > _MAX_PROGRAM:
        raise ValueError(f"must compile to at most {_MAX_PROGRAM} instructions of RE2 together")
    return patterns


def _without_a_name_twice(patterns: list[str]) -> list[str]:
    names = [name for pattern in patterns for name in _compiled(pattern).groupindex]
    if len({*names}) < len(names):
        raise ValueError("must not have two groups of one name")
    return patterns


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


Pattern = Annotated[str, max_bytes(512), After(_compiles, {"format": "re2"})]
Patterns = Annotated[
    list[Pattern], entries(0, 100), After(_small_enough), if_null([]), Before(max_encoded(_MAX_LIST).check)
]


class UserAgentFilter(Enabled):
    """Lets requests pass, or refuses them, by their User-Agent header; several are one, joined with commas.

    Patterns and header are read byte by byte (Latin-1): what is not ASCII is several signs to a pattern, one for each
    byte of its UTF-8, and `\\x{…}` is `\\x{ff}` at most.

    A request passes if a pattern of `allow` is found in the header, or none of `deny` is. So `allow` makes exceptions
    from `deny`; alone it refuses nobody: deny `.*` beside it to refuse all others. Without the header, a request passes
    only if a pattern of `allow` matches the empty text, as `^$` does.
    """

    allow: Annotated[Patterns, After(_without_a_name_twice)] = []
    f"""Regular expressions (RE2), one of which found in the User-Agent lets it pass, whatever `deny` says;
    at most {_MAX_LIST:,} characters together, counted in JSON that stands in JSON once more, and {_MAX_PROGRAM:,}
    instructions of RE2."""

    deny: Patterns = []
    f"""Regular expressions (RE2), one of which found in the User-Agent has it refused;
    at most {_MAX_LIST:,} characters together, counted in JSON that stands in JSON once more, and {_MAX_PROGRAM:,}
    instructions of RE2."""


MODULES = (
    Module(
        path="/edges/https/{edge_id}/routes/{id}/user_agent_filter",
        shape=UserAgentFilter,
        stored=modules.UserAgentFilter,
    ),
)
