"""Envoy's errors about edges: what a host reports of them, and until when."""

from dataclasses import dataclass, field, replace

import pytest

from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.edges.served import ServedEdge
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.records.change_log import ItemKey
from edge.control import rejections
from edge.control.names.loading import NameErrors
from edge.control.rejections import Rejections
from edge.envoy.resources import PORT_PREFIX
from edge.plan.names import NamePlan
from tests.edge.plan import worlds
from tests.edge.plan.worlds import DOMAIN, A, B

CERTIFICATE_ID, OTHER_ID = f"cert_{1:027}", f"cert_{2:027}"
NAME, ROUTE = f"x.{DOMAIN}", "edghtsrt_1"
WILD = replace(worlds.edge(worlds.route(), hosts=[f"*.{DOMAIN}"]), revision=7)
HOSTPORT = WILD.hostports[0]
ERRORS = NameErrors("no", "no")


@dataclass
class World:
    """The rejections of a host, and the errors that it reported last, by edge."""

    reported: dict[str, dict[str, str]] = field(default_factory=dict)
    rejections: Rejections = field(init=False)
    writes: int = 0

    def __post_init__(self) -> None:
        self.rejections = Rejections("one", self._write)

    def report(self, errors: NameErrors, edge: ServedEdge = WILD, name: str = NAME) -> dict[str, str]:
        """Report a name, and return all errors of the edge."""
        plan = worlds.plan_of(edge.id, edge)
        self.rejections.report_name(NamePlan(name, A, "cert_1", edge=plan), errors)
        return dict(self.rejections.errors_of(edge.id, edge.revision))

    def _write(self, account: str, edge: str, report: Report | None) -> None:
        assert account == A
        self.writes += 1
        self.reported.pop(edge, None)
        if report:
            self.reported[edge] = dict(report.errors)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (NameErrors(), {}),
        (NameErrors("no"), {HOSTPORT: "no"}),
        (NameErrors(routes="bad"), {ROUTE: "bad"}),
        (NameErrors("no", "bad"), {HOSTPORT: "no", ROUTE: "bad"}),
        (NameErrors(certificates={CERTIFICATE_ID: "weak"}), {CERTIFICATE_ID: "weak"}),
    ],
)
def test_errors_are_reported_by_hostport_route_and_certificate(errors: NameErrors, expected: dict[str, str]) -> None:
    world = World()

    assert world.report(errors) == expected
    assert world.reported == ({WILD.id: expected} if expected else {}) | {
        id: {id: "weak"} for id in errors.certificates
    }
    assert world.report(NameErrors()) == {}
    assert WILD.id not in world.reported


def test_names_below_a_wildcard_share_one_report() -> None:
    world = World()
    for number in range(1000):
        world.report(ERRORS, name=f"n{number}.{DOMAIN}")

    assert world.writes == 1
    assert world.reported == {WILD.id: {HOSTPORT: "no", ROUTE: "no"}}


def test_a_name_without_an_edge_is_not_reported() -> None:
    world = World()
    world.rejections.report_name(NamePlan(NAME, A, refusal="unknown"), ERRORS)
    assert world.report(ERRORS, name="x.elsewhere.example") == {}
    assert world.writes == 0


def test_a_rejected_certificate_is_reported_until_it_changes() -> None:
    world = World()
    for _ in range(2):  # the second time with other visitors of the tunnel
        world.rejections.report_name(
            NamePlan(NAME, A, OTHER_ID), NameErrors(certificates={CERTIFICATE_ID: f"{OTHER_ID} is weak"})
        )
    world.rejections.report_name(NamePlan(NAME, A, OTHER_ID), NameErrors())
    world.rejections.forget([TUNNEL, EDGE_KEY, CERTIFICATE._replace(id=OTHER_ID)])
    assert (world.reported, world.writes) == ({CERTIFICATE_ID: {CERTIFICATE_ID: "… is weak"}}, 1)

    world.rejections.forget([CERTIFICATE])
    assert world.reported == {}


def test_a_name_that_its_edge_refuses_is_reported() -> None:
    world, plan = World(), worlds.plan_of(WILD.id, WILD)
    world.rejections.report_name(NamePlan(NAME, A, refusal="no certificate", refused_by=plan), ERRORS)
    assert world.reported == {WILD.id: {HOSTPORT: "no", ROUTE: "no"}}


def test_another_revision_has_no_errors_of_the_one_before() -> None:
    world, later = World(), replace(WILD, revision=8)
    world.report(ERRORS)

    assert world.rejections.errors_of(WILD.id, 8) == {}
    assert world.report(NameErrors(routes="bad"), later) == {ROUTE: "bad"}
    assert world.rejections.errors_of(WILD.id, 7) == {}


def test_a_listener_refuses_the_hostports_of_its_port() -> None:
    world = World()
    ports = replace(worlds.edge(hosts=[f"{DOMAIN}:20000", f"{DOMAIN}:20001"], id="edgtcp_1"), revision=7)
    plan = worlds.plan_of(ports.id, ports)

    world.rejections.report_listener(plan, f"{PORT_PREFIX}20001", "in use")
    assert world.reported == {"edgtcp_1": {f"{DOMAIN}:20001": "in use"}}
    world.rejections.report_listener(worlds.plan_of(WILD.id, WILD), f"edge/{WILD.id}/1", "bad")
    assert world.reported[WILD.id] == {HOSTPORT: "bad"}
    world.rejections.report_listener(plan, f"{PORT_PREFIX}20001", "")
    assert world.reported.keys() == {WILD.id}


CERTIFICATE, TUNNEL = ItemKey(f"{A}#{kinds.TLS_CERTIFICATES.path}", CERTIFICATE_ID), ItemKey(tunnels.scope(A), "tn_1")
EDGE_KEY = ItemKey(f"{A}#{kinds.HTTPS_EDGES.path}", WILD.id)


@pytest.mark.parametrize(
    ("errors", "item_key", "stays"),
    [
        (ERRORS, TUNNEL, True),
        (ERRORS, CERTIFICATE, False),
        (ERRORS, ItemKey(accounts.SCOPE, A), False),
        (ERRORS, ItemKey(accounts.SCOPE, B), True),
        (ERRORS, EDGE_KEY, False),
        (NameErrors(routes="bad"), CERTIFICATE, True),  # of a loaded name, which is sent again if it differs
        (NameErrors(routes="bad"), EDGE_KEY, False),
    ],
)
def test_errors_are_forgotten_when_they_may_not_apply(errors: NameErrors, item_key: ItemKey, stays: bool) -> None:
    world = World()
    world.report(errors)

    world.rejections.forget([item_key])

    assert (WILD.id in world.reported) == stays


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It is too long.", "It is too long."),
        (f"Error adding/updating listener(s) edge/{CERTIFICATE_ID}: no", "no"),
        (f"{CERTIFICATE_ID} and {OTHER_ID}", f"{CERTIFICATE_ID} and …"),
        ("cannot read /srv/edge/key.pem", "cannot read a file"),
        ("two\n  lines\x00", "two lines"),
        ("x" * 1000, "x" * 400),
    ],
)
def test_an_error_has_no_file_names_and_only_own_ids(sentence: str, expected: str) -> None:
    assert rejections.redact(sentence, [CERTIFICATE_ID]) == expected
