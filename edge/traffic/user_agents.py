"""The user agent filter as conditions of Envoy's routes: what no condition lets pass is refused. Pure.

The conditions see more than one User-Agent header as one, joined with commas, which is what the upstream is sent.
"""

import re
from collections.abc import Sequence

from chalicelib.model.modules import UserAgentFilter
from edge.traffic.resources import Json

_HEADER = "user-agent"


def passing(rules: UserAgentFilter) -> list[list[Json]]:
    """Return the conditions on headers under which a request passes: all those of one of the lists.

    Without the header it passes where a pattern of `allow` is found in the empty text.
    """
    present: Json = {"name": _HEADER, "present_match": True}
    denied: list[Json] = [{**_found([pattern]), "invert_match": True} for pattern in rules.deny]
    allowed: list[list[Json]] = [[{**_found(rules.allow), "treat_missing_header_as_empty": True}]]
    return [*(allowed if rules.allow else []), [present, *denied]]


def _found(patterns: Sequence[str]) -> dict[str, Json]:
    regex = "|".join(f"(?:{_whole(pattern)})" for pattern in patterns)
    return {"name": _HEADER, "string_match": {"safe_regex": {"regex": rf"\C*(?:{regex})\C*"}}}


def _whole(pattern: str) -> str:
    r"""Return a pattern that can stand within another: one that ends in a \Q would have what follows be literal."""
    without = re.sub(r"\\Q(?s:.*?)\\E|\\[^Q]", "", pattern)
    return rf"{pattern}\E" if r"\Q" in without else pattern
