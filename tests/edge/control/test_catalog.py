"""How resources are encoded."""

from collections.abc import Callable

import pytest
from google.protobuf import json_format

from chalicelib.model.tunnels import Carried
from edge.control import catalog
from edge.process.settings import Settings
from edge.traffic import clusters, listeners, routes
from edge.traffic.resources import Resource
from edge.traffic.world import Site

SITES = [
    Site("a.example.com", Carried("acct_1", "tn_1", "gw-1", "a.example.com"), "cert_1"),
    Site("b.example.com", Carried("acct_2", "tn_2", "gw-1", "b.example.com"), "cert_2"),
    Site("cert_2", Carried("a", "", "gw-1", "cert_2"), "cert_2cert_2"),  # within one another, too short
    Site("same", Carried("same", "same", "gw-1", "same"), "same"),
    Site("name", Carried("type", "STATIC", "gw-1", "name"), "virtual_hosts"),  # also words of Envoy's
    Site("0s", Carried("googleapis", "inline", "gw-1", "0s"), "/"),
    Site("A\x7f\x7f", Carried("B\x7f\x7f", "tn_", "gw-1", "A\x7f\x7f"), "abc"),  # as blanks are
    Site('"\n\\', Carried("ä€", "𝄞\u2028", "gw-1", '"\n\\'), "ABC"),
]
RESOURCES = {
    "cluster": clusters.of_name,
    "listener": lambda site: listeners.of_certificate(site.certificate, Settings()),
    "port": lambda site: listeners.of_port_of(site.tunnel, str(20_000 + len(site.name)), Settings()),
    "part of a listener": lambda site: listeners.of_name(site.name, Settings()),
    "routes": lambda site: routes.of_certificate([site, *SITES]),
    "part of routes": routes.host,
    "misdirected": lambda site: routes.misdirected(site.name),
    "secret": lambda site: listeners.secret(site.certificate, site.tunnel.account, site.name),
}


@pytest.mark.parametrize("make", RESOURCES.values(), ids=RESOURCES)
def test_a_resource_is_encoded_as_if_there_were_no_other_like_it(make: Callable[[Site], Resource]) -> None:
    for site in SITES * 2:
        resource = make(site)
        message = catalog.MESSAGES[resource.key.kind]
        assert message.FromString(catalog.encoded(resource).value) == json_format.ParseDict(resource.body, message())
