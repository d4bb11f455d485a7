"""The status of an edge from its records in the table."""

from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.sign_in import managed_apps
from chalicelib.model.tunnels import gateways, tunnels
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import BackendTunnel
from tests import names
from tests.transports import Client

pytestmark = pytest.mark.usefixtures("tunnel_domain")
HOSTPORT = f"app.{names.D}:443"


def create(client: Client) -> tuple[str, str]:
    """Return the ids of a new TLS edge and of its tunnel group."""
    group = client.create("/backends/tunnel_group", {"labels": {"app": "web"}})["id"]
    edge = client.create("/edges/tls", {"hostports": [HOSTPORT]})["id"]
    client.put(f"/edges/tls/{edge}/backend", {"backend_id": group})
    return edge, group


def open_tunnel(account: str, gateway: str) -> None:
    labels = {"app": "web", "dc": "north"}
    tunnel = BackendTunnel(
        tunnel_session=ids.new("ts"), region="eu", forwards_to="localhost:80", labels=labels, gateway=gateway
    )
    tunnels.open_tunnel(account, tunnel, lease=60)


def read(client: Client, edge: str) -> Any:
    return client.get(f"/edges/tls/{edge}/status").json


def test_tunnels_of_live_gateways_count(admin: Client) -> None:
    edge, group = create(admin)
    edge_status.announce("one", lease=60)
    gateways.announce(Gateway("gw-1", "192.0.2.1", 4433), lease=60)
    for gateway in ("gw-1", "gw-1", "gw-gone"):
        open_tunnel(admin.account, gateway)

    assert read(admin, edge)["backends"] == [{"backend_id": group, "tunnels": 2}]


def test_a_route_without_an_application_needs_that_of_the_operator(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [HOSTPORT]})["id"]
    route = admin.create(f"/edges/https/{edge}/routes", {"match_type": "path_prefix", "match": "/"})["id"]
    admin.put(f"/edges/https/{edge}/routes/{route}/oauth", {"provider": {"gitlab": {}}})
    edge_status.announce("one", [f"*.{names.D}"], lease=60)
    error = "This service has no managed application for gitlab: set client_id and client_secret."
    statuses = []
    for _ in range(2):
        (status,) = admin.get(f"/edges/https/{edge}/status").json["routes"]
        statuses.append((status["state"], status["error"]))
        managed_apps.set_app("gitlab", "app", "secret")
    assert statuses[0] == ("refused", error)
    assert statuses[1][0] != "refused"


def test_the_operator_s_certificates_are_those_of_live_hosts(admin: Client) -> None:
    edge, _ = create(admin)
    edge_status.announce("one", ["other.example"], lease=60)
    edge_status.write_trial(admin.account, edge, Report(2, "2036-01-01T00:00:09Z", "one"))
    (hostport,) = read(admin, edge)["hostports"]
    assert (hostport["state"], hostport["error"].partition(":")[0]) == ("refused", "No TLS certificate covers the host")

    edge_status.announce("two", [f"*.{names.D}"], lease=60)
    assert read(admin, edge)["state"] == "live"
