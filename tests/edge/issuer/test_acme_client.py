"""Requests to a CA: Debian's pebble, which rejects some nonces, and believes each challenge."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from acme import messages
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chalicelib.crypto import keys
from chalicelib.model.names import renewal_schedule
from chalicelib.model.tls import acme_accounts
from chalicelib.model.tls.tls_certificates import open_private_key, read_certificates
from edge.issuer import account_keeping, key_making
from edge.issuer.account_keeping import AccountKeeper
from edge.issuer.acme_client import AcmeClient, CaSettings
from edge.issuer.attempt import Attempt
from edge.issuer.attempts import AttemptFailed
from edge.issuer.rules import renewal_times
from edge.issuer.rules.caa import CaaRecord
from edge.process.settings import SettingError
from tests import pebble
from tests.conftest import free_port
from tests.edge.issuer.attempting import POLICY
from tests.proving import prove
from tests.transports import Client

START = datetime(2026, 1, 1, tzinfo=UTC)
DOMAIN, WILDCARD = "app.example.com", "*.example.com"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaSettings]:
    """Start pebble; return how to reach it."""
    folder = tmp_path_factory.mktemp("acme") / "pebble"
    with pebble.run_pebble(folder, VA_ALWAYS_VALID=1, WFE_NONCEREJECT=15, AUTHZREUSE=50) as ca:
        yield CaSettings(ca.directory, "mailto:ops@example.com", bundle=str(ca.bundle))


def client_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def request(domain: str) -> x509.CertificateSigningRequest:
    names = x509.SubjectAlternativeName([x509.DNSName(domain)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.add_extension(names, critical=False).sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())


def wait_until(client: AcmeClient, order: str, *statuses: str) -> str:
    for _ in range(200):
        if (status := client.status(order)) in statuses:
            return status
        time.sleep(0.05)
    raise TimeoutError(status)


def test_an_account_is_registered_once(settings: CaSettings) -> None:
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    urls = {AcmeClient(settings, key).authority.account_url for _ in range(3)}
    assert len(urls) == 1
    assert AcmeClient(settings, other).authority.account_url not in urls


def test_the_key_of_an_account_can_be_changed(settings: CaSettings) -> None:
    old, new = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    client = AcmeClient(settings, old)
    before = client.authority
    client.change_key(new)
    assert client.status(client.order([DOMAIN])) == "pending"
    assert AcmeClient(settings, new).authority == before
    assert AcmeClient(settings, old).authority != before


def test_an_order_survives_that_another_issuer_changes_the_key(settings: CaSettings) -> None:
    old, new = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    first = AcmeClient(settings, old)
    settings_with_account = replace(settings, account=first.authority.account_url)
    second = AcmeClient(settings_with_account, old)
    order = second.order([DOMAIN])
    first.change_key(new)
    for client in (second, AcmeClient(settings_with_account, old)):
        with pytest.raises(AttemptFailed) as error:
            client.status(order)
        assert error.value.failure.code == "internal"
    assert AcmeClient(settings_with_account, new).status(order) == "pending"


def test_an_account_that_the_ca_has_lost_is_registered_again(settings: CaSettings) -> None:
    settings_of_lost = replace(settings, account=settings.directory.replace("/dir", "/my-account/none"))
    client = AcmeClient(settings_of_lost, client_key())
    with pytest.raises(AttemptFailed) as error:
        client.order([DOMAIN])
    assert error.value.failure.code == "ca_unreachable"
    assert client.status(client.order([DOMAIN])) == "pending"
    assert client.authority.account_url != settings_of_lost.account


def test_an_order_of_another_account_is_absent_unless_the_own_account_is_unusable(settings: CaSettings) -> None:
    key = client_key()
    first, other = AcmeClient(settings, key), AcmeClient(settings, client_key())
    order = first.order([DOMAIN])
    assert (first.status(order), other.status(order)) == ("pending", "absent")
    account = first.authority.account_url
    with first._requests() as acme:
        acme._post(account, messages.UpdateRegistration(status="deactivated"))
    for client in (first, AcmeClient(replace(settings, account=account), key), AcmeClient(settings, key)):
        with pytest.raises(AttemptFailed) as error:
            client.status(order)
        assert error.value.failure.code == "internal"
    other_client = AcmeClient(replace(settings, account=f"{account}0"), client_key())
    assert other_client.status(order) == "absent"  # it registered another account
    assert other_client.status(other_client.order([DOMAIN])) == "pending"


def test_jobs_that_wait_for_an_account_follow_at_once_when_there_is_another(
    settings: CaSettings, admin: Client, tunnel_domain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", settings.directory)
    waits: dict[str, int] = {}
    now = int(time.time())
    for code in ("internal", "ca_unreachable", "caa_forbids"):
        body = {"domain": f"{code.replace('_', '-')}.example.com", "certificate_management_policy": POLICY}
        id = admin.create("/reserved_domains", body)["id"]
        due = renewal_schedule.find(admin.account, id)
        assert due
        assert renewal_schedule.postpone(
            due, replace(due.entry.renewal, due_at=now + 86400, attempts=6, error_code=code)
        )
    keeper = AccountKeeper(settings.directory, AcmeClient(settings, account_keeping.read_key(settings.directory)), 60)
    keeper.keep()
    for entry in renewal_schedule.list_entries():
        waits[entry.renewal.error_code] = entry.renewal.due_at - now
    assert {code: wait < 120 for code, wait in waits.items()} == {
        "internal": True,
        "ca_unreachable": True,
        "caa_forbids": False,
    }
    for renewal_entry in list(renewal_schedule.list_entries()):
        due = renewal_schedule.find(renewal_entry.account, renewal_entry.reservation)
        assert due
        renewal_schedule.postpone(due, replace(renewal_entry.renewal, due_at=now + 86400))
    keeper.keep()  # the account is known by now
    assert {entry.renewal.due_at - now for entry in renewal_schedule.list_entries()} == {86400}


def test_the_operator_can_have_the_key_changed(settings: CaSettings, admin: Client) -> None:
    url = settings.directory
    client = AcmeClient(settings, account_keeping.read_key(url))
    AccountKeeper(url, client, 60).keep()
    before = acme_accounts.find(url)
    assert before
    assert before.url == client.authority.account_url
    first = acme_accounts.find_or_create(url, account_keeping.generate_key)
    assert acme_accounts.request_rotation(url)
    other = AcmeClient(settings, account_keeping.read_key(url))
    with pytest.raises(SettingError, match="was changed"):
        AccountKeeper(url, client, 60).keep()
    with pytest.raises(SettingError, match="Another issuer has changed"):
        AccountKeeper(url, other, 60).keep()
    assert acme_accounts.find_or_create(url, account_keeping.generate_key) != first
    assert acme_accounts.find(url) == before
    second_client = AcmeClient(settings, account_keeping.read_key(url))
    AccountKeeper(url, second_client, 60).keep()
    assert second_client.authority.account_url == before.url


def test_the_account_says_whether_caa_records_protect_the_names_of_tunnels(settings: CaSettings, admin: Client) -> None:
    url = settings.directory
    client = AcmeClient(settings, account_keeping.read_key(url))
    authority = client.authority
    identity = (*authority.identities, "letsencrypt.org")[0]
    line = f"{identity}; accounturi={authority.account_url}; validationmethods=dns-01"
    responses, states = [[], None, [CaaRecord(0, "issue", line)], None, [CaaRecord(0, "issue", identity)]], list[str]()
    for records in responses:
        AccountKeeper(url, client, 60, lambda records=records: records).keep()  # type: ignore[misc]
        acme_account = acme_accounts.find(url)
        states += [acme_account.caa] if acme_account else []
    assert states == ["missing", "missing", "published", "published", "missing"]


def test_a_change_of_the_key_that_an_issuer_did_not_store_is_completed(settings: CaSettings, admin: Client) -> None:
    url = f"{settings.directory}"
    client = AcmeClient(settings, account_keeping.read_key(url))
    account = client.authority.account_url
    next_key = account_keeping.generate_key()
    acme_accounts.request_rotation(url)
    acme_accounts.begin_rotation(url, next_key)
    new_key = keys.from_der(next_key)
    assert isinstance(new_key, ec.EllipticCurvePrivateKey)
    client.change_key(new_key)
    with pytest.raises(SettingError):
        AccountKeeper(url, AcmeClient(settings, account_keeping.read_key(url)), 60).keep()
    assert acme_accounts.find_or_create(url, account_keeping.generate_key) == next_key
    assert AcmeClient(settings, account_keeping.read_key(url)).authority.account_url == account


@pytest.mark.parametrize(("domain", "method"), [(DOMAIN, "http-01"), (DOMAIN, "dns-01"), (WILDCARD, "dns-01")])
def test_another_client_of_the_account_completes_an_order(settings: CaSettings, domain: str, method: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    client = AcmeClient(settings, key)
    order = client.order([domain])
    (challenge,) = client.challenges(order, method)  # type: ignore[arg-type]
    assert challenge.domain == domain.removeprefix("*.")
    assert challenge.value.startswith(challenge.token) is (method == "http-01")
    client.answer(challenge)
    wait_until(client, order, "ready")
    assert client.challenges(order, method) == []  # type: ignore[arg-type]
    other = AcmeClient(settings, key)
    certificate_request = request(domain)
    other.finalize(order, certificate_request)
    wait_until(other, order, "valid")
    (leaf, *_) = x509.load_pem_x509_certificates(other.download(order).encode())
    assert leaf.public_key() == certificate_request.public_key()
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    ) == [domain]
    assert other.renewal_window(leaf) is None  # pebble 2.4.0 suggests none
    other.revoke(leaf, 5)


@pytest.mark.parametrize("key_type", ["ecdsa", "rsa"])
def test_a_domain_gets_its_certificate_from_the_ca(
    settings: CaSettings, admin: Client, key_type: str, tunnel_domain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", settings.directory)
    policy = {"authority": "letsencrypt", "private_key_type": key_type}
    reservation = admin.create("/reserved_domains", {"domain": DOMAIN, "certificate_management_policy": policy})
    prove(reservation["id"])
    client = AcmeClient(settings, ec.generate_private_key(ec.SECP256R1()))
    now = int(time.time())
    (due,) = renewal_schedule.find_due(now, 10)
    claim = renewal_schedule.claim(due, now, now + 600)
    assert claim
    Attempt(client, lambda *_: "http-01", keys=key_making.make, sleep=lambda _: time.sleep(0.05)).run(claim)
    (certificate,) = admin.get("/tls_certificates").json["tls_certificates"]
    assert admin.get(f"/reserved_domains/{reservation['id']}").json["certificate"]["id"] == certificate["id"]
    assert certificate["subject_alternative_names"] == {"dns_names": [DOMAIN], "ips": []}
    assert certificate["private_key_type"] == key_type
    sealed = read_certificates(admin.account)[0]
    key = serialization.load_der_private_key(open_private_key(sealed), None)
    assert key.public_key() == x509.load_pem_x509_certificate(sealed.certificate.chain.encode()).public_key()


def test_a_certificate_is_named_as_in_rfc_9773() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = bytes.fromhex("69885b6b87464041e1b37b847ba0ae2cde01c8d4")
    builder = x509.CertificateBuilder(serial_number=0x87654321).subject_name(x509.Name([])).issuer_name(x509.Name([]))
    builder = builder.public_key(key.public_key()).not_valid_before(START).not_valid_after(START + timedelta(days=1))
    builder_with_key = builder.add_extension(x509.AuthorityKeyIdentifier(issuer, None, None), critical=False)
    assert renewal_times.identify(builder_with_key.sign(key, hashes.SHA256())) == "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"


def test_an_unknown_order_and_an_absent_ca_fail_with_their_codes(settings: CaSettings) -> None:
    client = AcmeClient(settings, ec.generate_private_key(ec.SECP256R1()))
    assert client.status(settings.directory.replace("/dir", "/my-order/none")) == "absent"
    with pytest.raises(AttemptFailed) as error:
        client.order(["not a domain"])
    assert error.value.failure.code == "internal"
    with pytest.raises(AttemptFailed) as absent:
        AcmeClient(CaSettings(f"https://localhost:{free_port()}/dir"), client_key()).order([DOMAIN])
    assert absent.value.failure.code == "ca_unreachable"
