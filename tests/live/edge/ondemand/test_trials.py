"""Trials of changed edges: which names an edge host connects to itself, and the result that it stores."""

from dataclasses import replace

from chalicelib import ids
from chalicelib.model.edges.backends import HttpResponse
from chalicelib.model.edges.edge_status import EdgeStatus
from chalicelib.model.edges.modules.backend import BackendModule
from chalicelib.model.edges.modules.mutual_tls import MutualTlsModule
from chalicelib.model.edges.modules.tls_termination import TlsTerminationModule
from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.edges.served import Modules, ServedAuthority, ServedBackend, ServedEdge, ServedRoute
from edge.link.authority import KeyPair
from tests import openssl
from tests.edge.edge_modules import enabled, extended
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, build_certificate, until

ACCOUNT = "acct_trials"
pytestmark = needs_envoy


def keep(edge: Edge, *names: str, route: Modules | None = None, modules: Modules | None = None) -> ServedEdge:
    """Put an edge with one route into the store."""
    answer = ServedBackend(ACCOUNT, ids.new("bkdhr"), HttpResponse(body="open\n"))
    edge.store.keep(answer)
    used = extended(route or enabled(), backend=BackendModule(backend_id=answer.id))
    routes = (ServedRoute(ids.new("edghtsrt"), "path_prefix", "/", used),)
    hostports = tuple(f"{name}.{edge.settings.tunnel_domain}:443" for name in names)
    served_edge = ServedEdge(ACCOUNT, ids.new("edghts"), 1, hostports, modules=modules or enabled(), routes=routes)
    edge.store.keep(served_edge)
    return served_edge


def status(edge: Edge, served_edge: ServedEdge) -> EdgeStatus:
    """Return the status after the trial of the current revision."""

    def is_tried() -> bool:
        trial = edge.store.trial(ACCOUNT, served_edge.id)
        return trial is not None and trial.revision == served_edge.revision

    until(is_tried)
    edge_status = edge.store.status(served_edge)
    assert edge_status
    return edge_status


def errors(edge: Edge, served_edge: ServedEdge) -> dict[str, str]:
    trial = edge.store.trial(ACCOUNT, served_edge.id)
    assert trial
    return dict(trial.errors)


def test_an_edge_is_live_before_its_first_visitor(edge: Edge) -> None:
    served_edge = keep(edge, "first", "second")

    edge_status = status(edge, served_edge)

    assert (edge_status.state, edge_status.revision) == ("live", 1)
    assert [hostport.state for hostport in edge_status.hostports] == ["live", "live"]
    assert [route.state for route in edge_status.routes] == ["live"]
    second_revision = replace(served_edge, revision=2)
    edge.store.keep(second_revision)
    assert (status(edge, second_revision).state, errors(edge, served_edge)) == ("live", {})
    edge.store.forget(second_revision)
    until(lambda: edge.store.trial(ACCOUNT, served_edge.id) is None)


def test_special_names_are_tried_too(edge: Edge) -> None:
    authority = ServedAuthority(ACCOUNT, ids.new("ca"), openssl.issue("/CN=clients").certificate)
    edge.store.keep(authority)
    mutual = enabled(mutual_tls=MutualTlsModule(certificate_authority_ids=[authority.id]))
    version = enabled(tls_termination=TlsTerminationModule(min_version="1.3"))
    served_edges = [keep(edge, "mutual", modules=mutual), keep(edge, "newest", modules=version), keep(edge, "*.wild")]

    states = [status(edge, served_edge).state for served_edge in served_edges]

    assert states == ["live", "live", "refused"]  # no certificate covers the wildcard
    assert [errors(edge, served_edge) for served_edge in served_edges] == [{}, {}, {}]


def test_a_rejected_certificate_is_known_before_the_first_visitor(edge: Edge) -> None:
    host = f"x.weak.{edge.settings.tunnel_domain}"
    weak, good = ids.new("cert"), ids.new("cert")
    weak_pair = openssl.issue(f"/CN={weak}", "rsa-1024")
    edge.store.upload(build_certificate(weak, ACCOUNT, host), KeyPair(weak_pair.certificate, weak_pair.key))
    served_edge = keep(edge, "x.weak")

    edge_status = status(edge, served_edge)

    assert edge_status.state == "refused"
    assert [*errors(edge, served_edge)] == [weak]
    assert "Envoy rejected a certificate: " in edge_status.hostports[0].error
    edge.upload(good, ACCOUNT, host)  # the edge does not change
    until(lambda: (edge_status := edge.store.status(served_edge)) is not None and edge_status.state == "live")
    assert "2048" in errors(edge, served_edge)[weak]


def test_rejected_routes_are_known_before_the_first_visitor(edge: Edge) -> None:
    too_large = UserAgentModule(deny=["(a{900}){900}"])
    served_edge = keep(edge, "filter", route=enabled(user_agent_filter=too_large))

    edge_status = status(edge, served_edge)

    sentence = "invalid repetition size: {900}"
    assert edge_status.state == "refused"
    assert errors(edge, served_edge) == {served_edge.hostports[0]: sentence, served_edge.routes[0].id: sentence}
    assert edge.status("filter") == "000"
    edge.store.keep(replace(served_edge, revision=2, routes=()))
    assert status(edge, replace(served_edge, revision=2)).state == "live"
    until(lambda: (ACCOUNT, served_edge.id) not in edge.store.reports())
