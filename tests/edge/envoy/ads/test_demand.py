"""Certificates that Envoy requests by server name, and what it has when control starts again."""

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import TYPES, Name
from edge.envoy.ads.delta import Demand, Stream
from edge.envoy.resources import Key
from edge.envoy.selector import OPERATOR_SECRET
from tests.edge.envoy import messages
from tests.edge.envoy.ads.streams import acks, asks, catalog, told

BAD = "Failed to load certificate chain"


def test_a_requested_name_is_reported_and_a_refusal_answers_it_each_time() -> None:
    stream = Stream(catalog(Key("secret", "known")))
    stream.receive(asks("secret", "known", "a.example.com"))
    assert stream.take_demand() == Demand(frozenset({"known", "a.example.com"}))
    assert told(stream) == [("1", ["known"], [])]
    stream.refuse(["a.example.com", "never-requested", "known"])
    assert told(stream) == [("2", [], ["a.example.com"])]
    stream.receive(DeltaDiscoveryRequest(type_url=TYPES["secret"], resource_names_unsubscribe=["a.example.com"]))
    stream.refuse(["a.example.com"])
    assert told(stream) == []
    stream.receive(asks("secret", "a.example.com"))
    assert stream.take_demand() == Demand(frozenset({"a.example.com"}))
    assert stream.take_demand() == Demand()


def test_refusals_that_wait_together_are_one_response() -> None:
    stream = Stream(catalog(Key("secret", "known")))
    stream.receive(asks("secret", "a", "b", "c"))
    told(stream)
    for names in (["a"], ["b", "a"], ["c"]):
        stream.refuse(names)
    (nonce, found, gone), *others = told(stream)
    assert (found, gone, others) == ([], ["a", "b", "c"], [])
    assert not stream.is_idle
    stream.receive(acks("secret", nonce))
    assert stream.is_idle
    stream.refuse(["a"])
    stream.receive(asks("secret", "known"))
    stream.refuse(["b"])
    assert [(found, gone) for _, found, gone in told(stream)] == [([], ["a"]), (["known"], []), ([], ["b"])]


def test_refusals_that_envoy_rejects_are_sent_again_in_halves() -> None:
    stream = Stream(catalog())
    stream.receive(asks("secret", "a", "b"))
    told(stream)
    stream.refuse(["a", "b"])
    ((nonce, _, _),) = told(stream)
    stream.receive(acks("secret", nonce, BAD))
    assert [gone for _, _, gone in told(stream)] == [["a"], ["b"]]


def test_a_rejected_certificate_of_the_operator_is_removed_unless_envoy_has_an_earlier_one() -> None:
    key = Key("secret", OPERATOR_SECRET)
    made = catalog(key)
    stream = Stream(made)
    stream.receive(asks("secret", OPERATOR_SECRET))
    told(stream)
    stream.receive(acks("secret", "1", BAD))
    assert [gone for _, _, gone in told(stream)] == [[OPERATOR_SECRET]]
    stream.enqueue(made.apply({key: messages.encode(key, {"name": "changed"})}))
    told(stream)
    stream.receive(acks("secret", "3"))
    stream.enqueue(made.apply({key: messages.encode(key, {"name": "worse"})}))
    told(stream)
    stream.receive(acks("secret", "4", BAD))
    assert told(stream) == []


def test_a_rejected_certificate_of_a_name_keeps_its_visitors_waiting_for_the_next_one() -> None:
    stream = Stream(catalog(Key("secret", "new")))
    stream.receive(asks("secret", "new"))
    told(stream)
    stream.receive(acks("secret", "1", BAD))
    assert told(stream) == []


def test_each_changed_scope_is_a_response_of_its_own() -> None:
    made = catalog(Key("scope", "a"), Key("scope", "b"))
    stream = Stream(made)
    stream.receive(asks("scope"))
    assert [sorted(names) for _, names, _ in told(stream)] == [["a", "b"]]
    changes = {Key("scope", name): messages.encode(Key("scope", name), {"name": name * 2}) for name in ("a", "b")}
    stream.enqueue(made.apply(changes))
    assert [names for _, names, _ in told(stream)] == [["a"], ["b"]]


def test_a_resource_is_settled_once_envoy_has_answered_every_response_about_it() -> None:
    name, other = Name("cluster", "a"), Name("cluster", "b")
    stream = Stream(catalog(Key("cluster", "a"), Key("cluster", "b")))
    stream.receive(asks("cluster"))
    assert (stream.is_settled(name), stream.take_settled()) == (False, [])
    told(stream)
    stream.receive(acks("cluster", "1", "bad"))  # both are sent again, one by one
    sent = {names[0]: nonce for nonce, names, _ in told(stream)}
    stream.receive(acks("cluster", sent["a"]))
    assert (stream.is_settled(name), stream.is_settled(other), stream.take_settled()) == (True, False, [name])


def test_what_only_envoy_has_stays_until_the_catalog_is_complete() -> None:
    made = catalog(Key("secret", "known"))
    made.is_complete = False
    stream, versions = Stream(made), {"known": "1", "held": "2"}
    stream.receive(asks("secret", "known", "held", "requested", initial_resource_versions=versions))
    held = frozenset({Name("secret", "known"), Name("secret", "held")})
    assert stream.take_demand() == Demand(frozenset({"requested"}), held)
    assert told(stream) == [("1", ["known"], [])]
    made.is_complete = True
    stream.enqueue_unknown()
    assert told(stream) == [("2", [], ["held"])]


def test_no_listener_is_sent_or_removed_until_all_are_known() -> None:
    made = catalog(Key("listener", "https"), Key("listener", "same"), Key("cluster", "a"))
    made.has_all_listeners = False
    new, back = Stream(made), Stream(made)
    new.receive(asks("listener"))
    back.receive(asks("listener", initial_resource_versions={"https": "earlier", "gone": "1"}))
    back.receive(asks("cluster"))
    changed = made.apply({Key("listener", "https"): messages.encode(Key("listener", "https"), {"name": "whole"})})
    for stream in (new, back):
        stream.enqueue(changed)
    assert (told(new), new.is_idle, told(back)) == ([], True, [("1", ["a"], [])])
    made.has_all_listeners = True
    for stream in (new, back):
        stream.enqueue_listeners()
    ((_, of_new, _),), ((_, of_back, gone),) = told(new), told(back)
    assert (sorted(of_new), sorted(of_back), gone) == (["https", "same"], ["https", "same"], ["gone"])
