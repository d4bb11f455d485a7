"""Certificates as the edge serves them."""

import pytest

from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.storage.records import items, table
from tests import openssl
from tests.transports import Client


def test_the_live_edge_serves_a_chain_of_either_format(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = openssl.chain("p256", "p256").upload
    for number in "23":
        monkeypatch.setenv("RECORD_FORMAT", number)
        certificate = admin.create("/tls_certificates", chain)
        item = table.read(items.scope(admin.account, "/tls_certificates"), certificate["id"])
        assert item is not None
        served = ServedCertificate.of(item)
        assert served
        assert served.chain == certificate["certificate_pem"]
