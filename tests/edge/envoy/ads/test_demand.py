"""Certificates that Envoy requests by server name, and what it has when control starts again."""

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import TYPES, Name
from edge.envoy.ads.delta import Demand, Stream
from edge.envoy.resources import Key
from edge.envoy.selector import OPERATOR_SECRET
from tests.edge.envoy import messages
from tests.edge.envoy.ads.streams import acks, asks, build_catalog, list_responses

BAD = "Failed to load certificate chain"


def test_a_requested_name_is_reported_and_a_refusal_answers_it_each_time() -> None:
    stream = Stream(build_catalog(Key("secret", "known")))
    stream.receive(asks("secret", "known", "a.example.com"))
    assert stream.take_demand() == Demand(frozenset({"known", "a.example.com"}))
    assert list_responses(stream) == [("1", ["known"], [])]
    stream.refuse(["a.example.com", "never-requested", "known"])
    assert list_responses(stream) == [("2", [], ["a.example.com"])]
    stream.receive(DeltaDiscoveryRequest(type_url=TYPES["secret"], resource_names_unsubscribe=["a.example.com"]))
    stream.refuse(["a.example.com"])
    assert list_responses(stream) == []
    stream.receive(asks("secret", "a.example.com"))
    assert stream.take_demand() == Demand(frozenset({"a.example.com"}))
    assert stream.take_demand() == Demand()


def test_refusals_that_wait_together_are_one_response() -> None:
    stream = Stream(build_catalog(Key("secret", "known")))
    stream.receive(asks("secret", "a", "b", "c"))
    list_responses(stream)
    for names in (["a"], ["b", "a"], ["c"]):
        stream.refuse(names)
    (nonce, names_in_response, removals), *more_responses = list_responses(stream)
    assert (names_in_response, removals, more_responses) == ([], ["a", "b", "c"], [])
    assert not stream.is_idle
    stream.receive(acks("secret", nonce))
    assert stream.is_idle
    stream.refuse(["a"])
    stream.receive(asks("secret", "known"))
    stream.refuse(["b"])
    assert [(names, removals) for _, names, removals in list_responses(stream)] == [
        ([], ["a"]),
        (["known"], []),
        ([], ["b"]),
    ]


def test_refusals_that_envoy_rejects_are_sent_again_in_halves() -> None:
    stream = Stream(build_catalog())
    stream.receive(asks("secret", "a", "b"))
    list_responses(stream)
    stream.refuse(["a", "b"])
    ((nonce, _, _),) = list_responses(stream)
    stream.receive(acks("secret", nonce, BAD))
    assert [removals for _, _, removals in list_responses(stream)] == [["a"], ["b"]]


def test_a_rejected_certificate_of_the_operator_is_removed_unless_envoy_has_an_earlier_one() -> None:
    key = Key("secret", OPERATOR_SECRET)
    catalog = build_catalog(key)
    stream = Stream(catalog)
    stream.receive(asks("secret", OPERATOR_SECRET))
    list_responses(stream)
    stream.receive(acks("secret", "1", BAD))
    assert [removals for _, _, removals in list_responses(stream)] == [[OPERATOR_SECRET]]
    stream.enqueue(catalog.apply({key: messages.encode(key, {"name": "changed"})}))
    list_responses(stream)
    stream.receive(acks("secret", "3"))
    stream.enqueue(catalog.apply({key: messages.encode(key, {"name": "worse"})}))
    list_responses(stream)
    stream.receive(acks("secret", "4", BAD))
    assert list_responses(stream) == []


def test_a_rejected_certificate_of_a_name_keeps_its_visitors_waiting_for_the_next_one() -> None:
    stream = Stream(build_catalog(Key("secret", "new")))
    stream.receive(asks("secret", "new"))
    list_responses(stream)
    stream.receive(acks("secret", "1", BAD))
    assert list_responses(stream) == []


def test_each_changed_scope_is_a_response_of_its_own() -> None:
    catalog = build_catalog(Key("scope", "a"), Key("scope", "b"))
    stream = Stream(catalog)
    stream.receive(asks("scope"))
    assert [sorted(names) for _, names, _ in list_responses(stream)] == [["a", "b"]]
    changes = {Key("scope", name): messages.encode(Key("scope", name), {"name": name * 2}) for name in ("a", "b")}
    stream.enqueue(catalog.apply(changes))
    assert [names for _, names, _ in list_responses(stream)] == [["a"], ["b"]]


def test_a_resource_is_settled_once_envoy_has_answered_every_response_about_it() -> None:
    name, other = Name("cluster", "a"), Name("cluster", "b")
    stream = Stream(build_catalog(Key("cluster", "a"), Key("cluster", "b")))
    stream.receive(asks("cluster"))
    assert (stream.is_settled(name), stream.take_settled()) == (False, [])
    list_responses(stream)
    stream.receive(acks("cluster", "1", "bad"))  # both are sent again, one by one
    nonces = {names[0]: nonce for nonce, names, _ in list_responses(stream)}
    stream.receive(acks("cluster", nonces["a"]))
    assert (stream.is_settled(name), stream.is_settled(other), stream.take_settled()) == (True, False, [name])


def test_what_only_envoy_has_stays_until_the_catalog_is_complete() -> None:
    catalog = build_catalog(Key("secret", "known"))
    catalog.is_complete = False
    stream, versions = Stream(catalog), {"known": "1", "held": "2"}
    stream.receive(asks("secret", "known", "held", "requested", initial_resource_versions=versions))
    envoy_names = frozenset({Name("secret", "known"), Name("secret", "held")})
    assert stream.take_demand() == Demand(frozenset({"requested"}), envoy_names)
    assert list_responses(stream) == [("1", ["known"], [])]
    catalog.is_complete = True
    stream.enqueue_unknown()
    assert list_responses(stream) == [("2", [], ["held"])]


def test_no_listener_is_sent_or_removed_until_all_are_known() -> None:
    catalog = build_catalog(Key("listener", "https"), Key("listener", "same"), Key("cluster", "a"))
    catalog.has_all_listeners = False
    new, returning = Stream(catalog), Stream(catalog)
    new.receive(asks("listener"))
    returning.receive(asks("listener", initial_resource_versions={"https": "earlier", "gone": "1"}))
    returning.receive(asks("cluster"))
    changes = catalog.apply({Key("listener", "https"): messages.encode(Key("listener", "https"), {"name": "whole"})})
    for stream in (new, returning):
        stream.enqueue(changes)
    assert (list_responses(new), new.is_idle, list_responses(returning)) == ([], True, [("1", ["a"], [])])
    catalog.has_all_listeners = True
    for stream in (new, returning):
        stream.enqueue_listeners()
    ((_, of_new, _),), ((_, of_back, removals),) = list_responses(new), list_responses(returning)
    assert (sorted(of_new), sorted(of_back), removals) == (["https", "same"], ["https", "same"], ["gone"])
