"""The user agent filter as conditions of Envoy's routes, which accept requests. Pure.

Several User-Agent headers count as one, joined with commas, as the upstream receives them.
"""

from chalicelib.model.edges import user_agents
from chalicelib.model.edges.modules import UserAgentModule
from edge.envoy.resources import Json

_HEADER = "user-agent"
_PRESENT: Json = {"name": _HEADER, "present_match": True}


def build_too_long() -> list[Json]:
    """Return the header conditions for a User-Agent that is too long."""
    short = rf"\C{{0,{user_agents.MAX_BYTES}}}"  # does not read beyond the limit
    return [_PRESENT, {**_matches(short), "invert_match": True}]


def build_passing(rules: UserAgentModule) -> list[list[Json]]:
    """Return lists of header conditions. A request passes if it meets all conditions of one list.

    Without the header it passes if a pattern of `allow` matches the empty text.
    """
    denied: list[Json] = [{**_matches(it), "invert_match": True} for it in user_agents.build_expressions(rules.deny)]
    allowed: list[list[Json]] = [
        [{**_matches(it), "treat_missing_header_as_empty": True}] for it in user_agents.build_expressions(rules.allow)
    ]
    return [*allowed, [_PRESENT, *denied]]


def _matches(expression: str) -> dict[str, Json]:
    return {"name": _HEADER, "string_match": {"safe_regex": {"regex": expression}}}
