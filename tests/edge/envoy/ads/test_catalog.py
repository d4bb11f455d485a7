"""How parts make resources and versions."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from envoy.config.route.v3.route_pb2 import RouteConfiguration

from edge.envoy.ads.catalog import Answer, Catalog, Name
from edge.envoy.names import https_listener
from edge.envoy.resources import Key
from edge.process.settings import Settings
from tests.edge.envoy import messages


def cancelling(digests: Mapping[str, int]) -> set[str]:
    """Return some names whose digests are 0 by exclusive or, as a client can choose who knows them all."""
    basis: dict[int, tuple[int, frozenset[str]]] = {}
    for name, digest in digests.items():
        remainder, used = digest, frozenset({name})
        while remainder and remainder.bit_length() in basis:
            other, other_names = basis[remainder.bit_length()]
            remainder, used = remainder ^ other, used ^ other_names
        if not remainder:
            return set(used)
        basis[remainder.bit_length()] = remainder, used
    raise AssertionError


def test_names_chosen_so_that_their_digests_cancel_out_make_another_version_all_the_same() -> None:
    names = [f"n{number}.tunnels.localhost" for number in range(200)]
    parts = {name: https_listener.build_special_part(name, "1.3", Settings()) for name in names}
    digests = {name: int.from_bytes(blake2b(part.encoded, digest_size=16).digest()) for name, part in parts.items()}
    chosen_parts = {parts[name].key: parts[name] for name in cancelling(digests)}
    catalog = Catalog(b"a key")
    listener = https_listener.build_https_listener(Settings())
    catalog.apply({listener.key: listener})
    assert catalog.apply(chosen_parts) == [Name("listener", listener.key.name)]
    assert catalog.apply(dict.fromkeys(chosen_parts)) == [Name("listener", listener.key.name)]


def put(catalog: Catalog, *names: str, part: str = "", **body: Any) -> None:
    """Put resources into a catalog, each named by its kind and name."""
    for kind, _, name in (text.partition(" ") for text in names):
        key = Key(kind, name, part)  # type: ignore[arg-type]
        catalog.apply({key: messages.encode(key, {"name": name, **body} if not part else body)})


def host(name: str) -> Any:
    return [{"name": name, "domains": [name]}]


ROUTES = Name("routes", "operator")


def test_a_resource_is_its_parts_as_they_are_now() -> None:
    catalog = Catalog(b"a key")
    put(catalog, "routes operator")
    for domain in ("a", "b"):
        put(catalog, "routes operator", part=domain, virtual_hosts=host(domain))
    put(catalog, "routes operator", part="a", virtual_hosts=host("a.example.com"))
    routes = RouteConfiguration.FromString(catalog.value(ROUTES))
    assert (routes.name, sorted(virtual_host.name for virtual_host in routes.virtual_hosts)) == (
        "operator",
        ["a.example.com", "b"],
    )
    at_once = Catalog(b"a key")
    put(at_once, "routes operator")
    for domain, name in (("b", "b"), ("a", "a.example.com")):
        put(at_once, "routes operator", part=domain, virtual_hosts=host(name))
    version = catalog.version(ROUTES)
    assert version == at_once.version(ROUTES)
    assert version
    assert len(version) == 32


def test_the_order_of_what_has_none_makes_no_other_version() -> None:
    words = {"tunnel": "tn_1", "account": "acct_1", "edge": "edghts_1"}
    versions = set()
    for order in (words, dict(reversed(words.items()))):
        catalog = Catalog(b"a key")
        put(catalog, "routes operator", metadata={"filter_metadata": {"edge": order}})
        versions.add(catalog.version(ROUTES))
    assert len(versions) == 1


def test_an_answer_counts_for_the_version_that_it_is_of() -> None:
    catalog, name = Catalog(b"a key"), Name("cluster", "a")
    catalog.begin_stream("envoy")
    put(catalog, "cluster a")
    assert catalog.current_answer(name) is None
    refusal = Answer(catalog.version(name) or "", "no")
    assert catalog.add_answer("envoy", name, refusal)
    assert not catalog.add_answer("envoy", name, refusal)
    assert (catalog.current_answer(name), catalog.refusal(name)) == (refusal, "no")
    put(catalog, "cluster a", connect_timeout="1s")
    assert (catalog.current_answer(name), catalog.refusal(name)) == (None, "")
    catalog.apply({Key("cluster", "a"): None})
    put(catalog, "cluster a")
    assert catalog.current_answer(name) is None


def test_what_one_envoy_accepts_hides_no_rejection_of_another() -> None:
    catalog, name = Catalog(b"a key"), Name("cluster", "a")
    put(catalog, "cluster a")
    version = catalog.version(name) or ""
    for stream, error in (("old", "no"), ("new", "")):
        catalog.begin_stream(stream)
        catalog.add_answer(stream, name, Answer(version, error))
    assert catalog.refusal(name) == "no"
    assert catalog.end_stream("old") == {name}
    assert catalog.current_answer(name) == Answer(version, "")


def test_the_last_answers_stay_until_an_envoy_returns_and_answers_again() -> None:
    catalog, name = Catalog(b"a key"), Name("cluster", "a")
    put(catalog, "cluster a")
    version = catalog.version(name) or ""
    catalog.begin_stream("envoy")
    catalog.add_answer("envoy", name, Answer(version, "no"))
    assert catalog.end_stream("envoy") == set()
    assert catalog.refusal(name) == "no"
    catalog.begin_stream("again")
    assert catalog.refusal(name) == "no"
    catalog.add_answer("again", name, Answer(version, ""))
    assert catalog.refusal(name) == ""
