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

_CHAINS = {True: blocking.CHAIN, False: REFUSED}


@lru_cache(256)
def build_matcher(document: str, port: int, region: str) -> v3.Matcher:
    """Return the matcher that admits the clients of a policy. Raises UnsupportedPolicy.

    It is nested, so that the blocked part of the listener comes first.
    """
    clients = v3.Matcher(on_no_match=matchers.choose(REFUSED))
    for verdict in traffic_policies.decide(documents.parse(document), port, region):
        clients.matcher_list.matchers.add(
            predicate=matchers.comes_from(map(str, verdict.networks), "policy"),
            on_match=matchers.choose(_CHAINS[verdict.is_admitted]),
        )
    return v3.Matcher(on_no_match=OnMatch(matcher=clients))
