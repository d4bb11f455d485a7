"""Edges on a real edge: what is kept in the store answers a moment later, through Envoy and tunnels with labels."""

import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chalicelib import ids
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.backends import HttpResponse, TunnelGroup, Weighted
from chalicelib.model.edges.edge_status import BackendStatus
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import UNREADABLE, ServedBackend, ServedEdge, ServedRoute
from edge.link.authority import KeyPair
from tests import openssl
from tests.edge.edge_modules import enabled
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, build_certificate, until

ACCOUNT = "acct_edges"
pytestmark = needs_envoy


def backend(edge: Edge, prefix: str, value: Any) -> str:
    record = ServedBackend(ACCOUNT, ids.new(prefix), value)
    edge.store.keep(record)
    return record.id


def route(to: str, match: str = "/") -> ServedRoute:
    return ServedRoute(ids.new("edghtsrt"), "path_prefix", match, enabled(backend=BackendModule(backend_id=to)))


def https_edge(edge: Edge, name: str, *routes: ServedRoute) -> ServedEdge:
    hostport = f"{name}.{edge.settings.tunnel_domain}:443"
    served_edge = ServedEdge(ACCOUNT, ids.new("edghts"), 1, (hostport,), routes=routes)
    edge.store.keep(served_edge)
    return served_edge


def test_a_group_of_tunnels_answers_for_an_edge_and_weights_are_shifted(edge: Edge, origin: int) -> None:
    key = edge.key(ACCOUNT)
    group = backend(edge, "bkdtg", TunnelGroup(labels={"app": "shop"}))
    answer = backend(edge, "bkdhr", HttpResponse(status_code=503, body="closed\n"))
    weighted = Weighted(backends={group: 1, answer: 0})
    shared = backend(edge, "bkdwd", weighted)
    https_edge(edge, "shop", route(shared), route(answer, "/closed"))
    for _ in range(2):
        edge.ssh(key, "-R", f"app=shop:80:localhost:{origin}")
    until(lambda: edge.status("shop") == "200")
    assert edge.curl("shop", path="/closed") == "closed\n"

    edge.store.keep(ServedBackend(ACCOUNT, shared, replace(weighted, backends={group: 0, answer: 1})))

    until(lambda: edge.status("shop") == "503")
    edge.store.keep(ServedBackend(ACCOUNT, shared, replace(weighted, backends={group: 1, answer: 1})))
    until(lambda: Counter(edge.status("shop") for _ in range(10)).keys() == {"200", "503"})


def test_the_share_of_an_offline_group_goes_to_the_groups_that_are_online(edge: Edge, origin: int) -> None:
    key, names = edge.key(ACCOUNT), ("blue", "green")
    blue, green = (backend(edge, "bkdtg", TunnelGroup(labels={"color": name})) for name in names)
    served_edge = https_edge(edge, "colors", route(backend(edge, "bkdwd", Weighted(backends={blue: 1, green: 2}))))
    only = {name: f"only-{name}" for name in names}
    for name, id in zip(names, (blue, green), strict=True):
        https_edge(edge, only[name], route(id))

    def visit(count: int = 40) -> Counter[str]:
        return Counter(edge.status("colors") for _ in range(count))

    def is_online(*online: str) -> bool:
        return all(edge.status(only[name]) == ("200" if name in online else "503") for name in names)

    until(lambda: is_online() and edge.status("colors") == "503")
    first = edge.ssh(key, "-R", f"color=blue:80:localhost:{origin}")
    until(lambda: is_online("blue"))
    assert visit() == {"200": 40}
    second = edge.ssh(key, "-R", f"color=green:80:localhost:{origin}")
    until(lambda: is_online(*names))
    assert visit() == {"200": 40}
    first.kill()
    until(lambda: is_online("green"))
    assert visit() == {"200": 40}
    second.kill()
    until(lambda: edge.status("colors") == "503")
    until(lambda: edge.access_log()[-1]["status"] == 503)
    shares = Counter(
        line["backend"] for line in edge.access_log() if line.get("edge") == served_edge.id and line["status"] == 200
    )
    assert shares.total() == 120
    assert 40 < shares[f"group/{blue}"] < 75  # 40 alone, and a third of 40


def test_a_route_whose_module_cannot_be_enforced_is_closed(edge: Edge) -> None:
    answer = backend(edge, "bkdhr", HttpResponse(status_code=200, body="open\n"))
    open_route = route(answer)
    served_edge = https_edge(edge, "oauth", open_route)
    until(lambda: edge.curl("oauth") == "open\n")
    closed = replace(open_route, modules=replace(open_route.modules, unenforced=("oauth",)))
    edge.store.keep(replace(served_edge, revision=2, routes=(closed,)))
    until(lambda: edge.status("oauth") == "503", within=2)
    edge.store.forget(served_edge)
    until(lambda: edge.curl("oauth", "-o", "/dev/null", "-w", "%{http_code}") == "404", within=2)


def test_an_edge_that_cannot_be_understood_keeps_its_name_closed_and_says_so(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key(ACCOUNT), "-R", f"lost:80:127.0.0.1:{origin}").wait_for("is online")
    open_route = route(backend(edge, "bkdhr", HttpResponse(body="open\n")))
    served_edge, other = https_edge(edge, "lost", open_route), https_edge(edge, "found", open_route)
    until(lambda: edge.curl("lost") == edge.curl("found") == "open\n")
    unreadable = replace(served_edge, revision=2, modules=enabled(), routes=(), error=UNREADABLE)
    edge.store.keep(unreadable)

    until(lambda: is_said(edge, unreadable, "refused"))

    until(lambda: edge.status("lost") == "000", within=2)
    status = edge.store.status(served_edge)
    assert status
    assert [(hostport.hostport, hostport.state, hostport.error) for hostport in status.hostports] == [
        (*served_edge.hostports, "refused", UNREADABLE)
    ]
    edge.store.keep(replace(other, revision=2))
    until(lambda: is_said(edge, replace(other, revision=2), "live"))
    assert edge.curl("found") == "open\n"
    edge.store.keep(replace(served_edge, revision=3))
    until(lambda: edge.curl("lost") == "open\n")


def test_what_envoy_refuses_is_closed_where_it_holds_visitors_back_and_its_sentence_is_told(edge: Edge) -> None:
    open_route = route(backend(edge, "bkdhr", HttpResponse(body="open\n")))
    served_edge, other = https_edge(edge, "bad", open_route), https_edge(edge, "good", open_route)
    until(lambda: edge.curl("bad") == edge.curl("good") == "open\n")
    too_large = enabled(
        open_route.modules.values.get("backend"), user_agent_filter=UserAgentModule(deny=["(a{900}){900}"])
    )
    second_revision = replace(served_edge, revision=2, routes=(replace(open_route, modules=too_large),))
    edge.store.keep(second_revision)
    until(lambda: edge.status("bad") == "503", within=3)
    until(lambda: is_said(edge, second_revision, "partly"))
    status = edge.store.status(served_edge)
    assert status
    assert [(route.state, route.error) for route in status.routes] == [("refused", "invalid repetition size: {900}")]
    assert edge.curl("good") == "open\n"
    edge.store.keep(replace(served_edge, revision=3))
    until(lambda: edge.curl("bad") == "open\n")
    until(lambda: is_said(edge, replace(served_edge, revision=3), "live"))
    assert is_said(edge, other, "live")


def is_said(edge: Edge, served_edge: ServedEdge, state: str) -> bool:
    status = edge.store.status(served_edge)
    return status is not None and (status.state, status.revision) == (state, served_edge.revision)


def test_what_becomes_of_an_edge_is_said_once_for_each_change_and_goes_with_it(edge: Edge) -> None:
    group, writes = backend(edge, "bkdtg", TunnelGroup(labels={"app": "said"})), list[tuple[str, str]]()
    edge.store.before = lambda *call: writes.append(call)
    served_edge = https_edge(edge, "said", route(group))
    until(lambda: is_said(edge, served_edge, "live"))
    first = edge.store.status(served_edge)
    assert first
    (hostport,) = first.hostports
    assert (hostport.hostport, hostport.state, hostport.error, hostport.certificate_id) == (
        f"said.{edge.settings.tunnel_domain}:443",
        "live",
        "",
        "",
    )
    assert [(route.id, route.state) for route in first.routes] == [(served_edge.routes[0].id, "live")]
    assert first.backends == (BackendStatus(group, 0),)
    second_revision = replace(served_edge, revision=2, modules=enabled(unenforced=("traffic_policy",)))
    edge.store.keep(second_revision)
    until(lambda: is_said(edge, second_revision, "partly"))
    second = edge.store.status(served_edge)
    assert second
    assert second.hostports[0].since >= hostport.since
    assert "traffic_policy" in second.routes[0].error
    time.sleep(1)
    new_and_changed = {"UpdateItem": 2, "PutItem": 1}  # a record that is not there yet cannot be updated
    assert _reports_in(writes, served_edge) == new_and_changed
    edge.store.forget(served_edge)
    until(lambda: _reports_in(writes, served_edge) == {**new_and_changed, "DeleteItem": 1})


def _reports_in(calls: list[tuple[str, str]], served_edge: ServedEdge) -> Counter[str]:
    """Return the operations that wrote reports and trials of an edge."""
    pattern = re.compile(rf"(/statuses|/edge_trials).*{served_edge.id}|{served_edge.id}.*(/statuses|/edge_trials)")
    return Counter(operation for operation, body in calls if operation.endswith("Item") and pattern.search(body))


def test_a_host_that_is_not_proved_is_told_as_such(edge: Edge) -> None:
    served_edge = ServedEdge(ACCOUNT, ids.new("edghts"), 1, ("shop.elsewhere.example:443",))
    edge.store.keep(served_edge)
    until(lambda: is_said(edge, served_edge, "unproved"))
    assert edge_status.list_hosts()


def test_statuses_of_an_account_that_cannot_be_written_hold_up_nobody(edge: Edge) -> None:
    other = ServedEdge("acct_stuck", ids.new("edghts"), 1, (f"stuck.{edge.settings.tunnel_domain}:443",))
    edge.store.keep(other)
    until(lambda: is_said(edge, other, "live"))
    edge.store.before = lambda _, body: time.sleep(3 if "acct_stuck" in body else 0)
    for number in range(10):
        edge.store.keep(
            replace(other, id=ids.new("edghts"), hostports=(f"s{number}.{edge.settings.tunnel_domain}:443",))
        )
    time.sleep(1)
    start = time.monotonic()
    served_edge = https_edge(edge, "quick", route(backend(edge, "bkdhr", HttpResponse(body="quick\n"))))
    until(lambda: edge.curl("quick") == "quick\n")
    until(lambda: is_said(edge, served_edge, "live"))
    assert time.monotonic() - start < 3


def test_a_certificate_is_live_and_gone_with_its_record(edge: Edge) -> None:
    served_edge = https_edge(edge, "own", route(backend(edge, "bkdhr", HttpResponse(body="own\n"))))
    until(lambda: is_said(edge, served_edge, "live"))
    host = f"own.{edge.settings.tunnel_domain}"
    id = ids.new("cert")
    edge.upload(id, ACCOUNT, host)
    edge.settle()
    assert certificate_of(edge, served_edge) == id
    assert f"CN = {id}" in openssl.run(
        "s_client", "-connect", f"127.0.0.1:{edge.settings.edge_port}", "-servername", host
    )
    edge.store.remove_certificate(ACCOUNT, id)
    edge.settle()
    assert certificate_of(edge, served_edge) == ""
    assert edge.curl("own") == "own\n"


def certificate_of(edge: Edge, served_edge: ServedEdge) -> str | None:
    status = edge.store.status(served_edge)
    return status.hostports[0].certificate_id if status else None


@pytest.mark.parametrize(("host", "name"), [("x.other", "x.other"), ("*.wild", "x.wild")])
def test_a_host_that_no_certificate_covers_is_not_live(edge: Edge, host: str, name: str) -> None:
    served_edge = https_edge(edge, host, route(backend(edge, "bkdhr", HttpResponse(body="deep\n"))))
    until(lambda: is_said(edge, served_edge, "refused"))
    status = edge.store.status(served_edge)
    assert status
    domain = edge.settings.tunnel_domain
    names = f"{host}.{domain}" if "*" in host else f"{host}.{domain} or *.other.{domain}"
    missing = (
        f"No TLS certificate covers the host: upload one for {names}. "
        "Until then, visitors get the operator's certificate."
    )
    assert [(hostport.state, hostport.error) for hostport in status.hostports] == [("refused", missing)]
    assert [route.state for route in status.routes] == ["refused"]
    assert edge.curl(name) == ""
    assert edge.curl(name, "--insecure") == "deep\n"

    edge.upload(ids.new("cert"), ACCOUNT, f"*.{host.partition('.')[2]}.{domain}")
    until(lambda: is_said(edge, served_edge, "live"))


WEAK = {"kind": "rsa-1024"}
MUST_STAPLE = {"extensions": ("tlsfeature=status_request",)}  # which the API accepted in earlier versions


@pytest.mark.parametrize(("issue_options", "reason"), [(WEAK, "2048-bit"), (MUST_STAPLE, "OCSP response is required")])
def test_a_certificate_that_envoy_refuses_leaves_the_one_before_it_in_service(
    edge: Edge, issue_options: Any, reason: str
) -> None:
    served_edge = https_edge(edge, "kept", route(backend(edge, "bkdhr", HttpResponse(body="kept\n"))))
    good, weak = ids.new("cert"), ids.new("cert")
    edge.upload(good, ACCOUNT, f"kept.{edge.settings.tunnel_domain}")
    until(lambda: certificate_of(edge, served_edge) == good, within=3)
    weak_pair = openssl.issue(f"/CN={weak}", **issue_options)
    later = build_certificate(weak, ACCOUNT, f"kept.{edge.settings.tunnel_domain}", until=400)
    edge.store.upload(later, KeyPair(weak_pair.certificate, weak_pair.key))
    responses = set[str]()

    def is_refused() -> bool:
        responses.add(edge.curl("kept", "--insecure"))
        return has_refusal(edge, served_edge)

    until(is_refused, within=5)
    assert responses == {"kept\n"}
    status = edge.store.status(served_edge)
    assert status
    (hostport,) = status.hostports
    assert (hostport.state, hostport.certificate_id) == ("live", good)
    assert hostport.error.startswith("Envoy rejected a certificate: ")
    assert reason in hostport.error
    edge.store.remove_certificate(ACCOUNT, weak)
    until(lambda: not has_refusal(edge, served_edge), within=3)
    edge.store.forget(served_edge)


def has_refusal(edge: Edge, served_edge: ServedEdge) -> bool:
    status = edge.store.status(served_edge)
    return status is not None and status.hostports[0].error != ""


def test_a_banned_name_is_served_by_no_wildcard_host_and_by_no_edge_from_before(edge: Edge) -> None:
    answer = backend(edge, "bkdhr", HttpResponse(body="open\n"))
    for name in ("*.team", "first-bank"):
        https_edge(edge, name, route(answer))

    def visit() -> list[str]:
        return [edge.status(name, "--insecure") for name in ("a.team", "b.team", "bank.team", "first-bank")]

    until(lambda: visit() == ["200"] * 4)
    edge.store.ban(f"b.team.{edge.settings.tunnel_domain}", "*bank*")
    until(lambda: visit() == ["200", "403", "403", "403"], within=5)
    edge.store.ban()
    until(lambda: visit() == ["200"] * 4, within=5)
