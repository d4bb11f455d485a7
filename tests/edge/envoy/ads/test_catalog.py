"""How resources are encoded."""

from collections.abc import Callable, Mapping
from hashlib import blake2b

import pytest
from google.protobuf import json_format

from chalicelib.model.serving.sites import Site
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy import listeners
from edge.envoy.ads import catalog
from edge.envoy.ads.catalog import Answer, Catalog, Name
from edge.envoy.names import https_listener
from edge.envoy.resources import Json, Key, Resource
from edge.process.settings import Settings

SITES = [
    Site("a.example.com", ServedTunnel("acct_1", "tn_1", "gw-1", "a.example.com"), "cert_1"),
    Site("b.example.com", ServedTunnel("acct_2", "tn_2", "gw-1", "b.example.com"), "cert_2"),
    Site("cert_2", ServedTunnel("a", "", "gw-1", "cert_2"), "cert_2cert_2"),  # within one another, too short
    Site("same", ServedTunnel("same", "same", "gw-1", "same"), "same"),
    Site("name", ServedTunnel("type", "STATIC", "gw-1", "name"), "virtual_hosts"),  # also words of Envoy's
    Site("0s", ServedTunnel("googleapis", "inline", "gw-1", "0s"), "/"),
    Site("B\x7f\x7f", ServedTunnel("xyz", "abc", "gw-1", "B\x7f\x7f"), "B\x7f\x7f"),  # as the blank of the next one is
    Site("A\x7f\x7f", ServedTunnel("B\x7f\x7f", "tn_", "gw-1", "A\x7f\x7f"), "abc"),  # as blanks are
    Site('"\n\\', ServedTunnel("ä€", "𝄞\u2028", "gw-1", '"\n\\'), "ABC"),
]
RESOURCES = {
    "port": lambda site: listeners.build_tunnel_port_listener(site.tunnel, str(20_000 + len(site.name)), Settings()),
    "part of a listener": lambda site: https_listener.build_special_part(site.name, "1.3", Settings()),
}


@pytest.mark.parametrize("make", RESOURCES.values(), ids=RESOURCES)
def test_a_resource_is_encoded_as_if_there_were_no_other_like_it(make: Callable[[Site], Resource]) -> None:
    for site in SITES * 2:
        resource = make(site)
        message = catalog.MESSAGES[resource.key.kind]
        assert message.FromString(catalog.encode(resource)) == json_format.ParseDict(resource.body, message())


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
    parts = {name: https_listener.build_special_part(name, "1.3", Settings()) for name in names}
    known = {name: int.from_bytes(blake2b(catalog.encode(it), digest_size=16).digest()) for name, it in parts.items()}
    chosen = {parts[name].key: parts[name] for name in cancelling(known)}
    made = Catalog(b"a key")
    whole = https_listener.build_https_listener(Settings())
    made.apply({whole.key: whole})
    assert made.apply(chosen) == [Name("listener", whole.key.name)]
    assert made.apply(dict.fromkeys(chosen)) == [Name("listener", whole.key.name)]


def put(made: Catalog, *names: str, part: str = "", **body: Json) -> None:
    """Put resources into a catalog, each named by its kind and name."""
    for kind, _, name in (text.partition(" ") for text in names):
        key = Key(kind, name, part)  # type: ignore[arg-type]
        made.apply({key: Resource(key, {"name": name, **body} if not part else body)})


def host(name: str) -> Json:
    return [{"name": name, "domains": [name]}]


ROUTES = Name("routes", "operator")


def test_a_resource_is_its_parts_as_they_are_now() -> None:
    made = Catalog(b"a key")
    put(made, "routes operator")
    for domain in ("a", "b"):
        put(made, "routes operator", part=domain, virtual_hosts=host(domain))
    put(made, "routes operator", part="a", virtual_hosts=host("a.example.com"))
    found = catalog.MESSAGES["routes"].FromString(made.value(ROUTES))
    assert (found.name, sorted(it.name for it in found.virtual_hosts)) == ("operator", ["a.example.com", "b"])
    at_once = Catalog(b"a key")
    put(at_once, "routes operator")
    for domain, name in (("b", "b"), ("a", "a.example.com")):
        put(at_once, "routes operator", part=domain, virtual_hosts=host(name))
    version = made.version(ROUTES)
    assert version == at_once.version(ROUTES)
    assert version
    assert len(version) == 32


def test_the_order_of_what_has_none_makes_no_other_version() -> None:
    words = {"tunnel": "tn_1", "account": "acct_1", "edge": "edghts_1"}
    versions = set()
    for order in (words, dict(reversed(words.items()))):
        made = Catalog(b"a key")
        put(made, "routes operator", metadata={"filter_metadata": {"edge": order}})
        versions.add(made.version(ROUTES))
    assert len(versions) == 1


def test_an_answer_counts_for_the_version_that_it_is_of() -> None:
    made, name = Catalog(b"a key"), Name("cluster", "a")
    put(made, "cluster a")
    assert made.current_answer(name) is None
    refused = Answer(made.version(name) or "", "no")
    made.answers[name] = refused
    assert (made.current_answer(name), made.refusal(name)) == (refused, "no")
    put(made, "cluster a", connect_timeout="1s")
    assert (made.current_answer(name), made.refusal(name)) == (None, "")
    made.apply({Key("cluster", "a"): None})
    assert made.answers == {}
