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
    known = {name: int.from_bytes(blake2b(it.encoded, digest_size=16).digest()) for name, it in parts.items()}
    chosen = {parts[name].key: parts[name] for name in cancelling(known)}
    made = Catalog(b"a key")
    whole = https_listener.build_https_listener(Settings())
    made.apply({whole.key: whole})
    assert made.apply(chosen) == [Name("listener", whole.key.name)]
    assert made.apply(dict.fromkeys(chosen)) == [Name("listener", whole.key.name)]


def put(made: Catalog, *names: str, part: str = "", **body: Any) -> None:
    """Put resources into a catalog, each named by its kind and name."""
    for kind, _, name in (text.partition(" ") for text in names):
        key = Key(kind, name, part)  # type: ignore[arg-type]
        made.apply({key: messages.encode(key, {"name": name, **body} if not part else body)})


def host(name: str) -> Any:
    return [{"name": name, "domains": [name]}]


ROUTES = Name("routes", "operator")


def test_a_resource_is_its_parts_as_they_are_now() -> None:
    made = Catalog(b"a key")
    put(made, "routes operator")
    for domain in ("a", "b"):
        put(made, "routes operator", part=domain, virtual_hosts=host(domain))
    put(made, "routes operator", part="a", virtual_hosts=host("a.example.com"))
    found = RouteConfiguration.FromString(made.value(ROUTES))
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
    made.begin_stream("envoy")
    put(made, "cluster a")
    assert made.current_answer(name) is None
    refused = Answer(made.version(name) or "", "no")
    assert made.add_answer("envoy", name, refused)
    assert not made.add_answer("envoy", name, refused)
    assert (made.current_answer(name), made.refusal(name)) == (refused, "no")
    put(made, "cluster a", connect_timeout="1s")
    assert (made.current_answer(name), made.refusal(name)) == (None, "")
    made.apply({Key("cluster", "a"): None})
    put(made, "cluster a")
    assert made.current_answer(name) is None


def test_what_one_envoy_accepts_hides_no_rejection_of_another() -> None:
    made, name = Catalog(b"a key"), Name("cluster", "a")
    put(made, "cluster a")
    version = made.version(name) or ""
    for stream, error in (("old", "no"), ("new", "")):
        made.begin_stream(stream)
        made.add_answer(stream, name, Answer(version, error))
    assert made.refusal(name) == "no"
    assert made.end_stream("old") == {name}
    assert made.current_answer(name) == Answer(version, "")


def test_the_last_answers_stay_until_an_envoy_returns_and_answers_again() -> None:
    made, name = Catalog(b"a key"), Name("cluster", "a")
    put(made, "cluster a")
    version = made.version(name) or ""
    made.begin_stream("envoy")
    made.add_answer("envoy", name, Answer(version, "no"))
    assert made.end_stream("envoy") == set()
    assert made.refusal(name) == "no"
    made.begin_stream("again")
    assert made.refusal(name) == "no"
    made.add_answer("again", name, Answer(version, ""))
    assert made.refusal(name) == ""
