"""Which user agents a route's conditions let pass, as Envoy reads them, beside the rule that the API tells."""

import pytest
import re2
from envoy.config.route.v3.route_components_pb2 import HeaderMatcher

from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from edge.envoy.filters import user_agents


def passes(rules: UserAgentModule, agent: bytes | None) -> bool:
    """Tell whether all conditions of one list hold; each regular expression has to match the whole header."""

    def match(condition: HeaderMatcher) -> bool:
        if condition.HasField("present_match"):
            return agent is not None
        if agent is None and not condition.treat_missing_header_as_empty:
            return False
        match = re2.fullmatch(condition.string_match.safe_regex.regex.encode(), agent or b"")
        return bool(match) is not condition.invert_match

    return any(all(map(match, conditions)) for conditions in user_agents.build_passing(rules))


@pytest.mark.parametrize(
    ("allow", "deny", "agent", "is_passed"),
    [
        ([], [], b"curl", True),
        ([], [], b"", True),
        ([], [], None, False),
        ([], ["bot"], b"a bot.", False),
        ([], ["bot"], b"browser", True),
        ([], ["^bot", "b$"], b"a bot", True),
        ([], ["bot"], None, False),
        (["good"], ["bot"], b"good bot", True),
        (["good"], ["bot"], b"bot", False),
        (["good"], [], b"other", True),
        (["good"], [".*"], b"other", False),
        (["^$"], [], None, True),
        (["^$"], [".*"], b"", True),
        (["good"], [], None, False),
        ([], ["bot"], b"bot\xff", False),
        ([], ["bot"], b"\xffbot", False),
        ([], ["bot"], b"\xff", True),
        ([], ["bot"], b"a\tbot", False),
        ([], [r"\Qa(b"], b"xa(by", False),
        ([], [r"\Qa(b"], b"x", True),
        ([], [r"\Qa(\E+b"], b"a((b", False),
        ([], [r"\\Qa"], rb"\Qa", False),
        ([r"\Q(", "b"], [".*"], b"b", True),
        ([], ["(?i)BOT"], b"bot", False),
        ([], ["(?i)x", "BOT"], b"bot", True),
        (["(?i)x", "BOT"], [".*"], b"bot", False),
        ([], ["a|b"], b"xbx", False),
    ],
)
def test_a_request_passes_by_what_is_found_in_its_user_agent(
    allow: list[str], deny: list[str], agent: bytes | None, is_passed: bool
) -> None:
    assert passes(UserAgentModule(allow=allow, deny=deny), agent) is is_passed
