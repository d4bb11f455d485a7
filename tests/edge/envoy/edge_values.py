"""Plans of edges for the tests of their resources."""

from typing import Any

from chalicelib.model.serving.edge_plans import Plan
from edge.process.settings import Settings
from tests.edge.plan.worlds import EDGE, GATEWAY, authority, edge, group, plan_of, route, tunnel

SETTINGS = Settings()


def planned(**options: Any) -> Plan:
    authorities = (authority(pem="PEM 1"), authority("ca_2", pem="PEM 2"))
    return plan_of(options.get("id", EDGE), GATEWAY, tunnel(), group(), *authorities, edge(route(), **options))
