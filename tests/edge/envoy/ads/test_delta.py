"""One stream of discovery as a rule: what Envoy says in, what it is told out."""

import pytest
from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import TYPES, Answer, Catalog, Name
from edge.envoy.ads.delta import Stream
from edge.envoy.resources import Key, Kind
from tests.edge.envoy import messages
from tests.edge.envoy.ads.streams import acks, asks, catalog, told

SECRETS = tuple(f"cert_{number}" for number in range(8))


def test_who_asks_for_all_of_a_kind_is_told_all_and_hears_of_changes() -> None:
    made = catalog(Key("cluster", "a"), Key("cluster", "b"), Key("secret", "s"))
    stream = Stream(made)
    stream.receive(asks("cluster"))
    assert [(nonce, sorted(names), gone) for nonce, names, gone in told(stream)] == [("1", ["a", "b"], [])]
    stream.enqueue(made.apply({Key("cluster", "c"): messages.encode(Key("cluster", "c"), {"name": "c"})}))
    stream.enqueue(made.apply({Key("cluster", "a"): None, Key("secret", "s"): None}))
    assert told(stream) == [("2", ["c"], []), ("3", [], ["a"])]
    stream.enqueue([Name("cluster", "a")])
    assert told(stream) == []


def test_routes_that_are_gone_are_not_told_of() -> None:
    made = catalog(Key("routes", "cert_1"), Key("secret", "cert_1"))
    stream = Stream(made)
    stream.receive(asks("routes", "cert_1"))
    stream.receive(asks("secret", "cert_1"))
    assert told(stream) == [("1", ["cert_1"], []), ("2", ["cert_1"], [])]
    stream.enqueue(made.apply({Key("routes", "cert_1"): None, Key("secret", "cert_1"): None}))
    assert [gone for _, _, gone in told(stream)] == [["cert_1"]]


def test_the_first_answer_is_sent_also_where_there_is_nothing() -> None:
    stream = Stream(catalog())
    stream.receive(asks("cluster"))
    assert told(stream) == [("1", [], [])]
    stream.enqueue([Name("cluster", "never-there")])
    assert told(stream) == []


def test_who_asks_by_name_is_told_these_alone_until_it_asks_no_more() -> None:
    made = catalog(*(Key("secret", name) for name in SECRETS))
    stream = Stream(made)
    stream.receive(asks("secret", "cert_1", "cert_9"))
    assert told(stream) == [("1", ["cert_1"], [])]
    stream.enqueue([Name("secret", "cert_1"), Name("secret", "cert_2")])
    stream.receive(asks("secret", "cert_2"))
    assert told(stream) == [("2", ["cert_1"], []), ("3", ["cert_2"], [])]
    stream.receive(DeltaDiscoveryRequest(type_url=TYPES["secret"], resource_names_unsubscribe=["cert_1"]))
    stream.enqueue([Name("secret", "cert_1")])
    assert told(stream) == []
    stream.receive(asks("secret", "cert_1"))
    assert told(stream) == [("4", ["cert_1"], [])]


def test_a_star_asks_for_all() -> None:
    stream = Stream(catalog(Key("listener", "a")))
    stream.receive(asks("listener", "*"))
    assert told(stream) == [("1", ["a"], [])]


def test_an_envoy_that_comes_back_is_told_what_it_lacks_and_what_is_gone() -> None:
    made = catalog(Key("listener", "same"), Key("listener", "other"), Key("listener", "new"))
    version = made.version(Name("listener", "same"))
    assert version
    stream, has = Stream(made), {"same": version, "other": "old", "gone": "old"}
    accepted = stream.receive(asks("listener", initial_resource_versions=has))
    assert accepted == [(Name("listener", "same"), Answer(version, ""))]
    ((_, names, gone),) = told(stream)
    assert (sorted(names), gone) == (["new", "other"], ["gone"])


def test_what_is_named_comes_before_what_names_it() -> None:
    kinds: tuple[Kind, ...] = ("routes", "listener", "secret", "cluster")
    stream = Stream(catalog())
    for kind in kinds:
        stream.receive(asks(kind, "a"))
    told(stream)
    made = stream._catalog
    stream.enqueue(made.apply({Key(kind, "a"): messages.encode(Key(kind, "a"), {"name": "a"}) for kind in kinds}))
    assert [it.type_url for it in stream.responses()] == [
        TYPES[kind] for kind in ("cluster", "secret", "listener", "routes")
    ]


def test_an_answer_is_kept_for_each_resource_with_its_version() -> None:
    made = catalog(Key("secret", "cert_1"), Key("secret", "cert_2"))
    stream = Stream(made)
    stream.receive(asks("secret", "cert_1", "cert_2"))
    told(stream)
    names = [Name("secret", "cert_1"), Name("secret", "cert_2")]
    answers = dict(stream.receive(acks("secret", "1")))
    assert answers == {name: Answer(found, "") for name in names if (found := made.version(name))}
    assert stream.receive(acks("secret", "1")) == stream.receive(acks("secret", "7")) == []
    made.begin_stream(stream)
    for name, answer in answers.items():
        made.add_answer(stream, name, answer)
    assert [made.current_answer(name) for name in names] == [answers[name] for name in names]
    made.apply({Key("secret", "cert_1"): messages.encode(Key("secret", "cert_1"), {"name": "another"})})
    assert [made.current_answer(name) for name in names] == [None, answers[names[1]]]


@pytest.mark.parametrize("bad", [{"cert_0"}, {"cert_7"}, {"cert_3"}, {"cert_2", "cert_5"}, set(SECRETS), set()])
def test_what_envoy_refuses_together_is_known_by_name_in_the_end(bad: set[str]) -> None:
    made = catalog(*(Key("secret", name) for name in SECRETS))
    stream, answers = Stream(made), dict[str, str]()
    stream.receive(asks("secret", *SECRETS))
    for _ in range(30):
        for nonce, names, _gone in told(stream):
            error = "no" if bad & set(names) else ""
            answers |= {name.name: answer.error for name, answer in stream.receive(acks("secret", nonce, error))}
    assert answers == {name: "no" if name in bad else "" for name in SECRETS}


def test_what_was_refused_is_sent_in_halves_before_what_came_later() -> None:
    made = catalog(*(Key("cluster", name) for name in ("a", "b", "c")))
    stream = Stream(made)
    stream.receive(asks("cluster"))
    stream.receive(asks("listener"))
    ((nonce, names, _), _) = told(stream)
    later = Key("listener", "d")
    stream.enqueue(made.apply({later: messages.encode(later, {"name": "d"})}))
    stream.receive(acks("cluster", nonce, "no"))
    assert [found for _, found, _ in told(stream)] == [names[:1], names[1:], ["d"]]


def test_a_kind_that_is_not_known_is_not_answered() -> None:
    stream = Stream(catalog())
    assert stream.receive(DeltaDiscoveryRequest(type_url="type.googleapis.com/other")) == []
    assert told(stream) == []


def test_parts_make_one_resource_whose_version_does_not_depend_on_their_order() -> None:
    def made(*parts: str) -> Catalog:
        it = catalog(Key("routes", "operator"))
        for part in parts:
            host = {"virtual_hosts": [{"name": part, "domains": [part]}]}
            it.apply({Key("routes", "operator", part): messages.encode(Key("routes", "operator", part), host)})
        return it

    name = Name("routes", "operator")
    found, other, less = (made(*parts).version(name) for parts in (("a", "b"), ("b", "a"), ("a",)))
    assert found == other != less
    back = made("a", "b")
    assert back.apply({Key("routes", "operator", "b"): None, Key("routes", "operator", "c"): None}) == [name]
    assert back.version(name) == less
    assert back.apply({Key("routes", "operator", "c"): None}) == []
    assert back.apply({Key("routes", "operator"): None}) == [name]
    assert back.version(name) is None
    assert list(back.names("routes")) == []
