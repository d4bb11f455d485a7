"""What a change makes of the resources: what it touches, in an order in which nothing is named before it is there."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chalicelib.model.names.reservations import ServedReservation
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.model.tunnels.tunnels import ServedTunnel
from edge.envoy.resources import Changes, Key, Resource, split_stages
from edge.plan.record_index import Removed, Update
from edge.process.settings import Settings
from edge.serving.serving import Serving

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UP, OTHER = Gateway("gw-1", "192.0.2.1", 4433), Gateway("gw-2", "192.0.2.2", 4433)
TUNNEL = ServedTunnel("acct_a", "tn_1", "gw-1", "a.example.com")
CERTIFICATE = ServedCertificate("acct_a", "cert_1", "", ("*.example.com",), NOW, NOW + timedelta(days=1))
GATEWAY = {f"cluster gw-1{way}" for way in ("", "/http2", "/proxied", "/proxied/http2", "/bytes")}
PLAIN = {"routes operator[a.example.com]"}
OWN = {
    "cluster name/a.example.com",
    "listener certificate/cert_1",
    "listener https[a.example.com]",
    "routes cert_1",
    "routes operator[a.example.com]",
}


def serving(*facts: Update) -> Serving:
    """Return what is served when these facts were taken up."""
    made = Serving(Settings(tunnel_domain="example.com"), "PEM")
    made.world.set_ready("acct_a", frozenset({"a.example.com", "b.example.com"}))
    made.update(facts, NOW)
    return made


def told(changes: Changes) -> set[str]:
    """Return what is set, and with a minus what is gone."""
    return {
        f"{'' if it else '-'}{key.kind} {key.name}{f'[{key.part}]' if key.part else ''}" for key, it in changes.items()
    }


def gone(names: Iterable[str]) -> set[str]:
    return {f"-{name}" for name in names}


def test_before_anything_is_known_the_public_ports_and_the_operators_routes_are_there() -> None:
    assert told(serving().start()) == {"listener http", "listener https", "routes http", "routes operator"}


def test_a_gateway_is_reached_by_two_versions_of_http_and_by_bytes() -> None:
    assert told(serving().update([UP], NOW)) == GATEWAY
    assert told(serving(UP).update([replace(UP, port=1)], NOW)) == GATEWAY
    assert told(serving(UP).update([Removed("gw-1")], NOW)) == gone(GATEWAY)


def test_what_was_gone_and_is_back_is_told_again() -> None:
    before = serving(UP, TUNNEL)
    before.update([Removed("gw-1"), Removed("tn_1")], NOW)
    assert told(before.update([UP, TUNNEL], NOW)) == GATEWAY | PLAIN


def test_a_tunnel_without_a_certificate_is_one_route_more() -> None:
    assert told(serving(UP).update([TUNNEL], NOW)) == PLAIN
    assert told(serving(UP, TUNNEL).update([Removed("tn_1")], NOW)) == gone(PLAIN)
    assert told(serving(UP, TUNNEL).update([Removed("gw-1")], NOW)) == gone(GATEWAY | PLAIN)


def test_a_tunnel_whose_upstream_reads_who_visitors_are_has_connections_of_its_own() -> None:
    apart = {it.replace("cert_1", "operator-proxied") for it in OWN}
    reading = replace(TUNNEL, proxy_protocol=True)
    before = serving(UP, TUNNEL)
    assert told(before.update([reading], NOW)) == apart
    own = {"cluster name/a.example.com", "listener certificate/cert_1", "routes cert_1"}
    none = {"-listener certificate/operator-proxied", "-routes operator-proxied"}
    assert told(before.update([CERTIFICATE], NOW)) == own | none
    assert told(serving(UP, reading).update([TUNNEL], NOW)) == gone(apart - PLAIN) | PLAIN


def test_a_tunnel_that_moves_to_another_gateway_changes_its_route_alone() -> None:
    before = serving(UP, OTHER, TUNNEL, CERTIFICATE)
    assert told(before.update([replace(TUNNEL, gateway="gw-2")], NOW)) == {"routes cert_1"}
    assert told(serving(UP, OTHER, TUNNEL).update([replace(TUNNEL, id="tn_2")], NOW)) == PLAIN


def test_a_certificate_has_a_listener_and_routes_of_its_own() -> None:
    assert told(serving(UP, TUNNEL).update([CERTIFICATE], NOW)) == OWN
    assert told(serving(UP).update([TUNNEL, CERTIFICATE], NOW)) == OWN
    back = serving(UP, TUNNEL, CERTIFICATE).update([Removed("cert_1")], NOW)
    assert told(back) == gone(OWN - PLAIN) | PLAIN
    assert told(serving(UP, TUNNEL, CERTIFICATE).update([Removed("tn_1")], NOW)) == gone(OWN)


def test_a_second_name_of_a_certificate_leaves_its_listener_as_it_is() -> None:
    second = replace(TUNNEL, id="tn_2", name="b.example.com")
    changes = serving(UP, TUNNEL, CERTIFICATE).update([second], NOW)
    new = {"cluster name/b.example.com", "listener https[b.example.com]", "routes operator[b.example.com]"}
    assert told(changes) == {*new, "routes cert_1"}


def test_a_certificate_that_follows_another_moves_the_name() -> None:
    longer = replace(CERTIFICATE, id="cert_2", not_after=NOW + timedelta(days=9))
    changes = serving(UP, TUNNEL, CERTIFICATE).update([longer], NOW)
    follower = {"listener certificate/cert_2", "routes cert_2", "cluster name/a.example.com"}
    assert told(changes) == follower | gone({"listener certificate/cert_1", "routes cert_1"})


def test_a_proved_domain_is_served_under_its_accounts_certificate_alone_and_redirected() -> None:
    def elsewhere(*facts: Update) -> Serving:
        made = Serving(Settings(), "PEM")
        made.world.set_ready("acct_a", frozenset({"a.example.com"}))
        made.update(facts, NOW)
        return made

    held, redirect = ServedReservation("acct_a", "rd_1", "a.example.com", True), {"routes http[a.example.com]"}
    assert told(elsewhere(UP, TUNNEL, CERTIFICATE).update([held], NOW)) == OWN | redirect
    assert told(elsewhere(UP, held, CERTIFICATE).update([TUNNEL], NOW)) == OWN | redirect
    assert told(elsewhere(UP, TUNNEL).update([held], NOW)) == set()
    lapsed = replace(held, is_proved=False)
    assert told(elsewhere(UP, TUNNEL, CERTIFICATE, held).update([lapsed], NOW)) == gone(OWN | redirect)
    assert told(elsewhere(UP, TUNNEL, CERTIFICATE, held).update([Removed("cert_1")], NOW)) == gone(OWN | redirect)


def test_a_certificate_ends_by_itself() -> None:
    before = serving(UP, TUNNEL, CERTIFICATE)
    assert told(before.update([], CERTIFICATE.not_after, {"a.example.com"})) == gone(OWN - PLAIN) | PLAIN
    assert told(before.update([], CERTIFICATE.not_after, {"a.example.com"})) == set()


def test_what_is_known_already_changes_nothing() -> None:
    facts = (UP, TUNNEL, CERTIFICATE)
    assert told(serving(*facts).update([*facts, replace(TUNNEL, expires=9), Removed("tn_9")], NOW)) == set()


def test_a_change_makes_only_what_it_touches() -> None:
    many: list[Update] = [replace(TUNNEL, id=f"tn_{number}", name=f"n{number}.example.com") for number in range(50)]
    before = serving(UP)
    before.world.set_ready("acct_a", frozenset(f"n{number}.example.com" for number in range(50)))
    assert len(before.update(many, NOW)) == 50
    assert told(before.update([Removed("tn_7")], NOW)) == {"-routes operator[n7.example.com]"}


def test_changes_come_in_three_stages() -> None:
    made = {
        key: Resource(key, {}) if is_there else None
        for key, is_there in {
            Key("listener", "new"): True,
            Key("listener", "old"): False,
            Key("listener", "port/20001"): True,  # where its upstream is there
            Key("listener", "port/20002"): False,
            Key("listener", "https", "in"): True,
            Key("routes", "operator", "in"): True,  # after its name has left the operator's listener
            Key("routes", "operator", "out"): False,
            Key("listener", "https", "back"): False,
            Key("routes", "operator", "back"): True,  # before its name comes to the operator's listener again
            Key("listener", "https", "gone"): False,
            Key("routes", "operator", "gone"): False,  # no sooner than its name leads nowhere
            Key("routes", "cert_1"): True,
            Key("routes", "cert_2"): False,
            Key("cluster", "gw-1"): True,
            Key("cluster", "name/a.example.com"): True,  # also where its name had another certificate before
            Key("cluster", "name/b.example.com"): False,
        }.items()
    }
    assert [told(stage) for stage in split_stages(made)] == [
        {"listener new", "cluster gw-1", "routes operator[back]", "routes cert_1"},
        {
            "listener https[in]",
            "-listener https[back]",
            "-routes operator[out]",
            "-listener https[gone]",
            "-routes operator[gone]",
            "cluster name/a.example.com",
            "listener port/20001",
        },
        {
            "-listener old",
            "-listener port/20002",
            "routes operator[in]",
            "-cluster name/b.example.com",
            "-routes cert_2",
        },
    ]
