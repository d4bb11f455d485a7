"""The user agent filter as conditions of Envoy's routes: what no condition lets pass is refused. Pure.

The conditions see more than one User-Agent header as one, joined with commas, which is what the upstream is sent.
"""

from chalicelib.model import user_agents
from chalicelib.model.modules import UserAgentModule
from edge.traffic.resources import Json

_HEADER = "user-agent"
_PRESENT: Json = {"name": _HEADER, "present_match": True}


def build_too_long() -> list[Json]:
    """Return the conditions on headers that a User-Agent is too long for a filter."""
    short = rf"\C{{0,{user_agents.MAX_BYTES}}}"  # which ends at the first byte that is too much
    return [_PRESENT, {**_matches(short), "invert_match": True}]


def build_passing(rules: UserAgentModule) -> list[list[Json]]:
    """Return the conditions on headers under which a request passes: all those of one of the lists.

    Without the header it passes where a pattern of `allow` is found in the empty text.
    """
    denied: list[Json] = [{**_matches(it), "invert_match": True} for it in user_agents.build_expressions(rules.deny)]
    allowed: list[list[Json]] = [
        [{**_matches(it), "treat_missing_header_as_empty": True}] for it in user_agents.build_expressions(rules.allow)
    ]
    return [*allowed, [_PRESENT, *denied]]


def _matches(expression: str) -> dict[str, Json]:
    return {"name": _HEADER, "string_match": {"safe_regex": {"regex": expression}}}
