"""How resources are encoded."""

from collections.abc import Callable, Mapping
from hashlib import blake2b

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
        assert message.FromString(catalog.encoded(resource)) == json_format.ParseDict(resource.body, message())


def cancelling(digests: Mapping[str, int]) -> set[str]:
    """Return some names whose digests are 0 by exclusive or, as a client can choose who knows them all."""
    basis: dict[int, tuple[int, frozenset[str]]] = {}
    for name, digest in digests.items():
        left, used = digest, frozenset({name})
        while left and left.bit_length() in basis:
            other, others = basis[left.bit_length()]
            left, used = left ^ other, used ^ others
        if not left:
            return set(used)
        basis[left.bit_length()] = left, used
    raise AssertionError


def test_names_chosen_so_that_their_digests_cancel_out_make_another_version_all_the_same() -> None:
    names = [f"n{number}.tunnels.localhost" for number in range(200)]
    parts = {name: listeners.of_name(name, Settings()) for name in names}
    known = {name: int.from_bytes(blake2b(catalog.encoded(it), digest_size=16).digest()) for name, it in parts.items()}
    chosen = {it.key: it for name, it in parts.items() if name in cancelling(known)}
    made = catalog.Catalog(b"a key of the edge")
    whole = listeners.fixed(Settings())[1]
    made.change({whole.key: whole})
    assert made.change(chosen) == [catalog.Name("listener", whole.key.name)]
    assert made.change(dict.fromkeys(chosen)) == [catalog.Name("listener", whole.key.name)]
