"""GET /gateways: the addresses and host keys of the SSH gateways. No scope is required."""

from typing import Any

from chalicelib.http.endpoints import Call, Endpoint
from chalicelib.model.names import base_names
from chalicelib.model.tunnels import gateways
from chalicelib.schema.shapes import Shape
from chalicelib.storage.records.items import Item


class ListedGateway(Shape):
    """The gateways at one address. Verify their host key against `host_keys` before you sign in."""

    address: str
    """Host and port for `ssh`."""

    region: str
    """Region of the gateway, the same as in its tunnels."""

    host_keys: list[str]
    """Public host keys of the gateway, in OpenSSH authorized_keys format."""


class GatewayList(Shape):
    """The SSH gateways that are online, and the names that they serve."""

    gateways: list[ListedGateway]
    """The gateways. Those with the same address and region are one entry with the host keys of all."""

    tunnel_domain: str
    """The domain below which tunnels get their names; empty if the service has none."""

    tcp_ports: str
    """The ports of TCP tunnels, such as `20000-20099`; empty if the service has none."""


def _get(_call: Call) -> Item:
    return Item(gateways.GATEWAYS, "", {})  # a placeholder: every endpoint must pass an item to `_show`


def _show(_item: Item, _call: Call) -> dict[str, Any]:
    running_gateways = gateways.list_for_clients()
    entries = [
        {"address": gateway.ssh_address, "region": gateway.region, "host_keys": [*gateway.host_keys]}
        for gateway in running_gateways
    ]
    return {"gateways": entries, "tunnel_domain": base_names.domain(), "tcp_ports": base_names.ports_text()}


class _Listing:
    def endpoints(self) -> tuple[Endpoint, ...]:
        return (Endpoint("GET", "/gateways", 200, _get, _show, response=GatewayList, is_versioned=False),)


ROUTES = _Listing()
