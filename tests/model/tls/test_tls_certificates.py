"""Certificates as the edge serves them."""

from typing import Any

import pytest

from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.storage.records import items, table
from tests import openssl
from tests.samples import public_key
from tests.transports import Client


def requests(client: Client) -> dict[str, Any]:
    """Return a request for each kind with texts that are stored as bytes."""
    authority = client.create("/ssh_certificate_authorities", {})["id"]
    asked = {"ssh_certificate_authority_id": authority, "public_key": f"{public_key()} alice@laptop"}
    chain = openssl.chain("p256", "p256").upload
    root = openssl.issue(extensions=("basicConstraints=critical,CA:TRUE",))
    return {
        "/ssh_host_certificates": asked,
        "/ssh_user_certificates": asked,
        "/tls_certificates": chain,
        "/certificate_authorities": {"ca_pem": root.certificate},
    }


def test_the_live_edge_serves_a_chain_of_either_format(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests(admin)["/tls_certificates"]
    for number in "23":
        monkeypatch.setenv("RECORD_FORMAT", number)
        made = admin.create("/tls_certificates", asked)
        found = table.read(items.scope(admin.account, "/tls_certificates"), made["id"])
        assert found is not None
        served = ServedCertificate.of(found)
        assert served
        assert served.chain == made["certificate_pem"]
