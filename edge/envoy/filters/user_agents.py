"""Translates the module `user_agent_filter` into header conditions of Envoy's routes. This file does no I/O.

Several User-Agent headers count as one, joined with commas, as the upstream receives them.
"""

from chalicelib.model.edges import user_agents
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from edge.envoy import parts, v3

_HEADER = "user-agent"
_PRESENT = v3.HeaderMatcher(name=_HEADER, present_match=True)
# Matches a text of at most MAX_BYTES bytes, and reads no more bytes of a longer text.
_SHORT = parts.regex(rf"\C{{0,{user_agents.MAX_BYTES}}}")
TOO_LONG = (_PRESENT, v3.HeaderMatcher(name=_HEADER, string_match=_SHORT, invert_match=True))


def build_passing(rules: UserAgentModule) -> list[list[v3.HeaderMatcher]]:
    """Return lists of header conditions. A request passes if it meets all conditions of one list.

    A request without the header passes only if a pattern of `allow` matches the empty text.
    """
    denied = [
        v3.HeaderMatcher(name=_HEADER, string_match=parts.regex(expression), invert_match=True)
        for expression in user_agents.build_expressions(rules.deny)
    ]
    allowed = [
        [v3.HeaderMatcher(name=_HEADER, string_match=parts.regex(expression), treat_missing_header_as_empty=True)]
        for expression in user_agents.build_expressions(rules.allow)
    ]
    return [*allowed, [_PRESENT, *denied]]
