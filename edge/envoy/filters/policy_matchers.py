"""Traffic policies as matchers of a port's listener, which choose the chain of a connection as it opens. Pure.

A filter would decide at the client's first byte only, after an upstream that speaks first. All matchers are side by
side, since Envoy reads messages only to a depth of 100.
"""

from functools import lru_cache

from chalicelib.model.edges import traffic_policies as documents
from edge.envoy import matchers, v3
from edge.envoy.filters import blocking
from edge.envoy.matchers import REFUSED, OnMatch
from edge.plan import traffic_policies
from edge.plan.traffic_policies import Verdict

_FieldMatcher = v3.Matcher.MatcherList.FieldMatcher


@lru_cache(256)
def build_matcher(document: str, port: int, region: str) -> v3.Matcher:
    """Return the matcher that admits the clients of a policy. Raises UnsupportedPolicy.

    It is nested, so that the blocked part of the listener comes first.
    """
    verdicts = traffic_policies.decide(documents.parse(document), port, region)
    listed = v3.Matcher.MatcherList(matchers=map(_match, verdicts))
    own = v3.Matcher(matcher_list=listed, on_no_match=matchers.choose(REFUSED))
    return v3.Matcher(on_no_match=OnMatch(matcher=own))


def _match(verdict: Verdict) -> v3.Matcher.MatcherList.FieldMatcher:
    chain = blocking.CHAIN if verdict.is_admitted else REFUSED
    predicate = matchers.comes_from(map(str, verdict.networks), "policy")
    return _FieldMatcher(predicate=predicate, on_match=matchers.choose(chain))
