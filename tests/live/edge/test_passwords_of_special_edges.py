"""Passwords of a route whose edge also requires client certificates, or has OAuth on another route."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.model.sign_in import signing_keys
from tests import openssl
from tests.edge.sign_in import samples
from tests.live.edge import module_site
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.module_site import Origin, Site
from tests.live.edge.running import Edge, until
from tests.transports import Client

pytestmark = needs_envoy
ADA = {"credentials": [{"username": "ada", "password": "correct horse"}]}
RIGHT, WRONG = ("-u", "ada:correct horse"), ("-u", "ada:wrong horse")


@pytest.fixture
def site(edge: Edge, admin: Client, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Serve /one with a password and /open without one."""
    with module_site.verifying(edge, edge.settings):
        until(lambda: bool(signing_keys.read()))
        name = "mutual" if "certificates" in request.node.name else "oauth"
        with module_site.serving(edge, admin, f"pass-{name}", "basic_auth", {"one": ADA}) as site:
            Origin.authorizations.clear()
            yield site


def test_an_edge_with_client_certificates_requires_both(site: Site, tmp_path: Path) -> None:
    authority = openssl.issue("/CN=clients", extensions=("basicConstraints=critical,CA:TRUE",))
    authority_id = site.admin.create("/certificate_authorities", {"ca_pem": authority.certificate})["id"]
    mutual = {"certificate_authority_ids": [authority_id]}
    assert site.admin.put(f"/edges/https/{site.id}/mutual_tls", mutual).status == 200
    site.edge.settle()
    client = openssl.issue("/CN=client", extensions=("basicConstraints=critical,CA:FALSE",), issuer=authority)
    file = tmp_path / "client.pem"
    file.write_text(client.certificate + client.key)
    certificate = ("--cert", str(file))

    until(lambda: site.edge.status(site.name, *certificate, path="/open") == "200")
    assert site.edge.status(site.name, *RIGHT, path="/one") == "000"
    _assert_password_is_required(site, *certificate)


def test_an_edge_with_oauth_on_another_route_requires_the_password(site: Site) -> None:
    site.add("signed", {"oauth": samples.module(email_domains=["example.com"])})
    site.edge.settle()

    until(lambda: site.edge.status(site.name, path="/signed") == "401")
    assert site.edge.status(site.name, *RIGHT, path="/signed") == "401"
    assert site.edge.status(site.name, path="/open") == "200"
    _assert_password_is_required(site)


def _assert_password_is_required(site: Site, *more: str) -> None:
    Origin.authorizations.clear()
    for version in ("--http1.1", "--http2"):
        options = ((), WRONG, RIGHT, RIGHT)
        statuses = [site.edge.status(site.name, version, *arguments, *more, path="/one") for arguments in options]
        assert statuses == ["401", "401", "200", "200"]
    assert site.edge.status(site.name, "--path-as-is", *more, path="/open/../one") == "400"
    assert Origin.authorizations == [None] * 4
    guesses = [site.edge.status(site.name, "-u", f"ada:guess {number}", *more, path="/one") for number in range(12)]
    assert guesses.count("401") <= 10
    assert guesses[-1] == "429"
    other = ("--interface", "127.6.9.1")
    assert site.edge.status(site.name, *RIGHT, *other, *more, path="/one") == "200"
