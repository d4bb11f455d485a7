"""One stream of discovery as a rule: what Envoy says in, what it is told out."""

import pytest
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import TYPES, Answer, Catalog, Name
from edge.envoy.ads.delta import Stream
from edge.envoy.resources import Key, Kind
from tests.edge.envoy import messages
from tests.edge.envoy.ads.streams import acks, asks, build_catalog, list_responses

SECRETS = tuple(f"cert_{number}" for number in range(8))


def test_who_asks_for_all_of_a_kind_is_told_all_and_hears_of_changes() -> None:
    catalog = build_catalog(Key("cluster", "a"), Key("cluster", "b"), Key("secret", "s"))
    stream = Stream(catalog)
    stream.receive(asks("cluster"))
    assert [(nonce, sorted(names), removals) for nonce, names, removals in list_responses(stream)] == [
        ("1", ["a", "b"], [])
    ]
    stream.enqueue(catalog.apply({Key("cluster", "c"): messages.encode(Key("cluster", "c"), {"name": "c"})}))
    stream.enqueue(catalog.apply({Key("cluster", "a"): None, Key("secret", "s"): None}))
    assert list_responses(stream) == [("2", ["c"], []), ("3", [], ["a"])]
    stream.enqueue([Name("cluster", "a")])
    assert list_responses(stream) == []


def test_routes_that_are_gone_are_not_told_of() -> None:
    catalog = build_catalog(Key("routes", "cert_1"), Key("secret", "cert_1"))
    stream = Stream(catalog)
    stream.receive(asks("routes", "cert_1"))
    stream.receive(asks("secret", "cert_1"))
    assert list_responses(stream) == [("1", ["cert_1"], []), ("2", ["cert_1"], [])]
    stream.enqueue(catalog.apply({Key("routes", "cert_1"): None, Key("secret", "cert_1"): None}))
    assert [removals for _, _, removals in list_responses(stream)] == [["cert_1"]]


def test_the_first_answer_is_sent_also_where_there_is_nothing() -> None:
    stream = Stream(build_catalog())
    stream.receive(asks("cluster"))
    assert list_responses(stream) == [("1", [], [])]
    stream.enqueue([Name("cluster", "never-there")])
    assert list_responses(stream) == []


def test_who_asks_by_name_is_told_these_alone_until_it_asks_no_more() -> None:
    catalog = build_catalog(*(Key("secret", name) for name in SECRETS))
    stream = Stream(catalog)
    stream.receive(asks("secret", "cert_1", "cert_9"))
    assert list_responses(stream) == [("1", ["cert_1"], [])]
    stream.enqueue([Name("secret", "cert_1"), Name("secret", "cert_2")])
    stream.receive(asks("secret", "cert_2"))
    assert list_responses(stream) == [("2", ["cert_1"], []), ("3", ["cert_2"], [])]
    stream.receive(DeltaDiscoveryRequest(type_url=TYPES["secret"], resource_names_unsubscribe=["cert_1"]))
    stream.enqueue([Name("secret", "cert_1")])
    assert list_responses(stream) == []
    stream.receive(asks("secret", "cert_1"))
    assert list_responses(stream) == [("4", ["cert_1"], [])]


def test_a_star_asks_for_all() -> None:
    stream = Stream(build_catalog(Key("listener", "a")))
    stream.receive(asks("listener", "*"))
    assert list_responses(stream) == [("1", ["a"], [])]


def test_an_envoy_that_comes_back_is_told_what_it_lacks_and_what_is_gone() -> None:
    catalog = build_catalog(Key("listener", "same"), Key("listener", "other"), Key("listener", "new"))
    version = catalog.version(Name("listener", "same"))
    assert version
    stream, has = Stream(catalog), {"same": version, "other": "old", "gone": "old"}
    answers = stream.receive(asks("listener", initial_resource_versions=has))
    assert answers == [(Name("listener", "same"), Answer(version, ""))]
    ((_, names, removals),) = list_responses(stream)
    assert (sorted(names), removals) == (["new", "other"], ["gone"])


def test_what_is_named_comes_before_what_names_it() -> None:
    kinds: tuple[Kind, ...] = ("routes", "listener", "secret", "cluster")
    stream = Stream(build_catalog())
    for kind in kinds:
        stream.receive(asks(kind, "a"))
    list_responses(stream)
    catalog = stream._catalog
    stream.enqueue(catalog.apply({Key(kind, "a"): messages.encode(Key(kind, "a"), {"name": "a"}) for kind in kinds}))
    assert [response.type_url for response in stream.responses()] == [
        TYPES[kind] for kind in ("cluster", "secret", "listener", "routes")
    ]


def test_an_answer_is_kept_for_each_resource_with_its_version() -> None:
    catalog = build_catalog(Key("secret", "cert_1"), Key("secret", "cert_2"))
    stream = Stream(catalog)
    stream.receive(asks("secret", "cert_1", "cert_2"))
    list_responses(stream)
    names = [Name("secret", "cert_1"), Name("secret", "cert_2")]
    answers = dict(stream.receive(acks("secret", "1")))
    assert answers == {name: Answer(version, "") for name in names if (version := catalog.version(name))}
    assert stream.receive(acks("secret", "1")) == stream.receive(acks("secret", "7")) == []
    catalog.begin_stream(stream)
    for name, answer in answers.items():
        catalog.add_answer(stream, name, answer)
    assert [catalog.current_answer(name) for name in names] == [answers[name] for name in names]
    catalog.apply({Key("secret", "cert_1"): messages.encode(Key("secret", "cert_1"), {"name": "another"})})
    assert [catalog.current_answer(name) for name in names] == [None, answers[names[1]]]


@pytest.mark.parametrize("bad", [{"cert_0"}, {"cert_7"}, {"cert_3"}, {"cert_2", "cert_5"}, set(SECRETS), set()])
def test_what_envoy_refuses_together_is_known_by_name_in_the_end(bad: set[str]) -> None:
    catalog = build_catalog(*(Key("secret", name) for name in SECRETS))
    stream, answers = Stream(catalog), dict[str, str]()
    stream.receive(asks("secret", *SECRETS))
    for _ in range(30):
        for nonce, names, _removals in list_responses(stream):
            error = "no" if bad & set(names) else ""
            answers |= {name.name: answer.error for name, answer in stream.receive(acks("secret", nonce, error))}
    assert answers == {name: "no" if name in bad else "" for name in SECRETS}


def test_what_was_refused_is_sent_in_halves_before_what_came_later() -> None:
    catalog = build_catalog(*(Key("cluster", name) for name in ("a", "b", "c")))
    stream = Stream(catalog)
    stream.receive(asks("cluster"))
    stream.receive(asks("listener"))
    ((nonce, names, _), _) = list_responses(stream)
    later = Key("listener", "d")
    stream.enqueue(catalog.apply({later: messages.encode(later, {"name": "d"})}))
    stream.receive(acks("cluster", nonce, "no"))
    assert [response_names for _, response_names, _ in list_responses(stream)] == [names[:1], names[1:], ["d"]]


def test_a_kind_that_is_not_known_is_not_answered() -> None:
    stream = Stream(build_catalog())
    assert stream.receive(DeltaDiscoveryRequest(type_url="type.googleapis.com/other")) == []
    assert list_responses(stream) == []


def test_parts_make_one_resource_whose_version_does_not_depend_on_their_order() -> None:
    def build_from_parts(*parts: str) -> Catalog:
        catalog = build_catalog(Key("routes", "operator"))
        for part in parts:
            host = {"virtual_hosts": [{"name": part, "domains": [part]}]}
            catalog.apply({Key("routes", "operator", part): messages.encode(Key("routes", "operator", part), host)})
        return catalog

    name = Name("routes", "operator")
    version, other, version_without_b = (
        build_from_parts(*parts).version(name) for parts in (("a", "b"), ("b", "a"), ("a",))
    )
    assert version == other != version_without_b
    catalog = build_from_parts("a", "b")
    assert catalog.apply({Key("routes", "operator", "b"): None, Key("routes", "operator", "c"): None}) == [name]
    assert catalog.version(name) == version_without_b
    assert catalog.apply({Key("routes", "operator", "c"): None}) == []
    assert catalog.apply({Key("routes", "operator"): None}) == [name]
    assert catalog.version(name) is None
    assert list(catalog.names("routes")) == []
