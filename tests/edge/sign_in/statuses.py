"""The status of an edge as the API shows it, once a host has tried the edge."""

from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from tests.transports import Client

_AT = "2036-01-01T00:00:09Z"


def route_status(admin: Client, edge: str) -> tuple[str, str]:
    """Return state and error of the only route of an HTTPS edge, after a trial that Envoy accepted."""
    address = f"/edges/https/{edge}"
    edge_status.announce("one", lease=60)
    reader = admin.with_token(admin.create("/api_keys", {"scopes": ["*:read"]})["token"])  # opens no secrets
    revision = int(reader.get(address).headers["etag"].strip('"').partition("-")[0])
    edge_status.write_trial(admin.account, edge, Report(revision, _AT, "one", {}))
    (route,) = admin.get(f"{address}/status").json["routes"]
    return route["state"], route["error"]
