"""The plan and the target of a route, for functions of modules that need neither."""

from chalicelib.model.edges.served import ServedEdge, ServedRoute
from chalicelib.model.serving.edge_plans import Plan, RouteTarget

TARGET = RouteTarget(ServedRoute("edghtsrt_1", "path_prefix", "/"))
PLAN = Plan(ServedEdge("acct_1", "edghts_1", 1, ()), (), targets=(TARGET,))
