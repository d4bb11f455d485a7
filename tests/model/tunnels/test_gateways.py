"""Gateways are up as long as they renew their records."""

from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from tests.transports import Client


def test_gateways_are_up_while_they_say_so(admin: Client) -> None:
    gateway, lapsed = Gateway("gw-1", "192.0.2.1", 4433), Gateway("gw-2", "192.0.2.2", 4433)
    gateways.announce(gateway, lease=60)
    gateways.announce(lapsed, lease=0)
    assert gateways.list_gateways() == [(lapsed, False), (gateway, True)]
    assert (gateways.read("gw-1"), gateways.read("gw-2")) == (gateway, None)
    gateways.announce(lapsed, lease=60)
    assert gateways.read("gw-2") == lapsed
    for id in ("gw-1", "gw-2", "gw-3"):
        gateways.withdraw(id)
    assert gateways.list_gateways() == []
