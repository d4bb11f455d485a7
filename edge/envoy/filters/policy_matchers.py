"""Traffic policies as matchers of a port's listener, which choose the chain of a connection as it opens. Pure.

A filter would decide at the client's first byte only, after an upstream that speaks first. All matchers are side by
side, since Envoy reads messages only to a depth of 100.
"""

from collections.abc import Mapping
from functools import lru_cache

from chalicelib.model.edges import traffic_policies as documents
from edge.envoy import parts
from edge.envoy.filters import blocking
from edge.envoy.resources import Json
from edge.plan import traffic_policies
from edge.plan.traffic_policies import Verdict

_CHAINS = {True: blocking.CHAIN, False: blocking.REFUSED}


@lru_cache(256)
def build_matcher(document: str, port: int, region: str) -> Mapping[str, Json]:
    """Return the matcher that admits the clients of a policy. Raises UnsupportedPolicy.

    It is nested, so that the blocked part of the listener comes first.
    """
    verdicts = traffic_policies.decide(documents.parse(document), port, region)
    refused: Json = {"action": parts.chain(blocking.REFUSED)}
    matcher: Json = {"matcher_list": {"matchers": [_match(it) for it in verdicts]}, "on_no_match": refused}
    return {"on_no_match": {"matcher": matcher}}


def _match(verdict: Verdict) -> Json:
    networks = map(str, verdict.networks)
    return {
        "predicate": parts.address_in(networks, "SourceIPInput", "policy"),
        "on_match": {"action": parts.chain(_CHAINS[verdict.is_admitted])},
    }
