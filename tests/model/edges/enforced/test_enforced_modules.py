"""Stored modules as the edge decodes them: what it cannot obey closes the route."""

from chalicelib.model.base import kinds
from chalicelib.model.edges.served import Modules

CIRCUIT = {"tripped_duration": 1, "error_percent": 100}


def test_other_modules_are_decoded_or_absent() -> None:
    of = Modules.of({"circuit_breaker": CIRCUIT, "compression": {"enabled": False}}, kinds.HTTPS_EDGE_ROUTES)
    assert (bool(of.values.get("circuit_breaker")), of.values.get("compression"), of.unenforced) == (True, None, ())
    unknown = Modules.of({"compression": {"enabled": "yes"}}, kinds.HTTPS_EDGE_ROUTES)
    assert unknown.unenforced == ("compression",)
