"""The operator's certificate: obtained, renewed, claimed by one issuer, and read by an edge host."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chalicelib import clock
from chalicelib.model.names import operator_certificate
from edge.control.operator_pair import OperatorPair
from edge.issuer.attempts import AttemptFailed
from edge.issuer.rules import outcomes
from edge.process.settings import Settings
from tests.edge.issuer.fake_ca import Killed, World
from tests.edge.issuer.operator_world import DOMAIN, NAMES, Zone, orders
from tests.transports import Client

DAY = 86400


@pytest.fixture(autouse=True)
def zone(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DNS_ZONE", "acme.example")


def test_the_certificate_is_obtained_once_and_renewed_by_name(tmp_path: Path) -> None:
    world, zone = World(names=NAMES), Zone()
    orders(world, zone).run()
    orders(world, zone).run()
    assert (len(world.orders), zone.records) == (1, {})
    pair = OperatorPair(Settings(directory=tmp_path, tunnel_domain=DOMAIN))
    assert "Local tunnels" in x509.load_pem_x509_certificate(pair.pair().chain.encode()).issuer.rfc4514_string()
    pair.refresh()
    certificate = x509.load_pem_x509_certificate(pair.pair().chain.encode())
    assert "CA of the test" in certificate.issuer.rfc4514_string()
    assert load_pem_private_key(pair.pair().key.encode(), None).public_key() == certificate.public_key()
    orders(world, zone, later=50 * DAY).run()
    assert len(world.orders) == 1
    orders(world, zone, later=70 * DAY).run()
    assert [certificate.serial_number if certificate else None for certificate in world.replaced] == [
        None,
        certificate.serial_number,
    ]


def test_a_missing_alias_costs_the_ca_no_request() -> None:
    def check(domain: str, target: str) -> None:
        raise AttemptFailed(outcomes.dns_alias_missing(f"*.{domain}", target), "no alias")

    world = World(names=NAMES)
    orders(world, Zone(), check=check).run()
    state = operator_certificate.read_renewal().renewal
    assert (world.calls, state.error_code, state.attempts) == ([], "dns_alias_missing", 1)
    assert state.due_at - clock.seconds() in (59, 60)


@pytest.mark.parametrize("killed_at", range(1, 9))
def test_a_killed_order_is_continued_when_its_claim_has_ended(killed_at: int) -> None:
    world, zone = World(killed_at, names=NAMES), Zone()
    with pytest.raises(Killed):
        orders(world, zone).run()
    orders(world, zone, later=590).run()
    assert operator_certificate.read_chain() is None
    orders(world, zone, later=601).run()
    assert operator_certificate.read_chain()
    assert (len(world.orders) <= (2 if killed_at == 1 else 1), zone.records) == (True, {})


def test_an_order_that_the_ca_does_not_have_for_our_account_is_replaced_at_once() -> None:
    world, zone = World(4, names=NAMES), Zone()
    with pytest.raises(Killed):
        orders(world, zone).run()
    world.orders = dict.fromkeys(world.orders, "absent")
    orders(world, zone, later=601).run()
    assert operator_certificate.read_chain()
    assert (len(world.orders), zone.records) == (2, {})


def test_another_certificate_in_the_settings_is_not_replaced(tmp_path: Path) -> None:
    world, zone = World(names=NAMES), Zone()
    orders(world, zone).run()
    files = [tmp_path / name for name in ("certificate", "key")]
    for file in files:
        file.write_text(file.name)
    settings = Settings(directory=tmp_path, tunnel_domain=DOMAIN, certificate=str(files[0]), private_key=str(files[1]))
    pair = OperatorPair(settings)
    pair.refresh()
    assert pair.pair().chain == "certificate"
