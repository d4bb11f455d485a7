"""TLS termination (SPEC 2.9, 4.8, 7) by its own rules: where TLS ends is the edge's, which versions the module's."""

from typing import Any

import pytest

from chalicelib.modules import tls_termination
from tests.modules.samples import anywhere
from tests.refusals import assert_invalid
from tests.transports import Client

(TLS_TERMINATION,) = tls_termination.MODULES

VERSIONS = ["1.0", "1.1", "1.2", "1.3"]
NULL = "must be null if TLS ends upstream"


def module_of(client: Client, terminate_at: str) -> str:
    """Return the module's path on a fresh edge that terminates TLS there."""
    edge = client.create("/edges/https", {"terminate_at": terminate_at})
    return f"/edges/https/{edge['id']}/tls_termination"


def response(terminate_at: str, min_version: str | None, *, enabled: bool = True) -> dict[str, Any]:
    return {"enabled": enabled, "terminate_at": terminate_at, "min_version": min_version}


def test_every_version_can_be_the_least_and_no_other(admin: Client) -> None:
    address = module_of(admin, "edge")
    for version in ("1.4", "1", "TLSv1.2", "tls1.2", 1.2, True, ["1.2"]):
        answer = admin.put(address, {"min_version": version})
        assert_invalid(answer, {"min_version": "must be one of '1.0', '1.1', '1.2' or '1.3'"})
    for known_version in VERSIONS:
        put = admin.put(address, {"min_version": known_version})
        assert put.json == response("edge", known_version)
        assert admin.put(address, put.json).json == put.json  # what is shown can be sent again


def test_no_version_leaves_the_choice_to_the_service(admin: Client) -> None:
    address = module_of(admin, "edge")
    for body in ({}, {"min_version": None}, {"min_version": ""}):
        admin.put(address, {"min_version": "1.3"})
        assert admin.put(address, body).json == response("edge", None)
        assert admin.get(address).json == response("edge", None)


@pytest.mark.parametrize("terminate_at", ["edge", "upstream"])
def test_where_tls_ends_may_be_repeated_but_not_changed(admin: Client, terminate_at: str) -> None:
    address = module_of(admin, terminate_at) if terminate_at == "upstream" else anywhere(TLS_TERMINATION)
    other = "upstream" if terminate_at == "edge" else "edge"
    for echo in (terminate_at, None, ""):
        assert admin.put(address, {"terminate_at": echo}).json == response(terminate_at, None)
    answer = admin.put(address, {"terminate_at": other})
    assert_invalid(
        answer, {"terminate_at": f"must be '{terminate_at}', like terminate_at of the edge: change the edge instead"}
    )
    answer = admin.put(address, {"terminate_at": "nowhere"})
    assert_invalid(answer, {"terminate_at": "must be one of 'edge' or 'upstream'"})
    assert admin.get(address).json == response(terminate_at, None)


def test_upstream_leaves_no_version_to_set(admin: Client) -> None:
    address = module_of(admin, "upstream")
    for version in VERSIONS:
        for echo in ({}, {"terminate_at": "upstream"}):
            assert_invalid(admin.put(address, {"min_version": version, **echo}), {"min_version": NULL})
    assert admin.get(address).status == 404
    assert admin.put(address, {"min_version": None, "enabled": False}).json == response("upstream", None, enabled=False)


def test_both_faults_of_an_upstream_edge_are_named(admin: Client) -> None:
    answer = admin.put(module_of(admin, "upstream"), {"terminate_at": "edge", "min_version": "1.2"})
    rule = "must be 'upstream', like terminate_at of the edge: change the edge instead"
    assert_invalid(answer, {"terminate_at": rule, "min_version": NULL})
