"""Tunnels that tests open as a gateway does."""

from chalicelib import ids
from chalicelib.model.tunnels import tunnels
from chalicelib.model.tunnels.tunnels import AgentTunnel
from tests.transports import Client

NAME, OTHER = "demo.tunnels.localhost", "other.tunnels.localhost"


def open_agent_tunnel(
    account: str, *, name: str = NAME, credential: str = "sshcr_1", gateway: str = "gw-1", lease: int | None = 60
) -> str:
    """Open a tunnel, with a lease of its own unless that is None. Return its id."""
    tunnel = AgentTunnel(
        tunnel_session=ids.new("ts"),
        endpoint=ids.new("ep"),
        region="eu",
        proto="https",
        public_url=f"https://{name}",
        forwards_to="192.0.2.1",
        gateway=gateway,
        credential=credential,
    )
    return tunnels.open_tunnel(account, tunnel, lease=lease, name=name)


def list_ends(client: Client) -> list[tuple[str, str]]:
    """Return the ends of tunnels that an account's events tell: of which, and by whom."""
    events = client.get("/audit_events?action=tunnel.delete").json["audit_events"]
    return [(event["resource_id"], event["actor"]["type"]) for event in events]
