"""Attempts of an issuer with the table and a CA of the test: issue, renewal, failures, and kills."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from chalicelib import clock
from chalicelib.model.names import issued_certificates, renewal_schedule
from chalicelib.model.tls import challenge_records
from chalicelib.model.tls.challenge_records import PendingChallenge
from chalicelib.operator import suspensions
from edge.issuer.attempts import AttemptFailed, Challenge
from edge.issuer.retired import Retired
from edge.issuer.rules import outcomes
from edge.issuer.rules.renewal_times import RenewalWindow
from tests.edge.issuer.attempting import Issuer, WindowedCa, reserved, status
from tests.edge.issuer.fake_ca import DOMAIN, Killed, World
from tests.proving import prove
from tests.transports import Client

DAY = 86400
_EVER = 9_999_999_999
PENDING = PendingChallenge("token", "token.value")  # by a process that is killed: an exception would remove it


@pytest.fixture(autouse=True)
def acme_directory(tunnel_domain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_DIRECTORY", "https://ca.example/directory")


def test_a_domain_gets_its_certificate_and_nothing_is_left(admin: Client) -> None:
    address, world = reserved(admin), World()
    Issuer(WindowedCa(world)).run()
    after = admin.get(address).json
    (certificate,) = admin.get("/tls_certificates").json["tls_certificates"]
    assert after["certificate"]["id"] == certificate["id"]
    assert certificate["subject_alternative_names"]["dns_names"] == [DOMAIN]
    end, start = (clock.parse(certificate[name]).timestamp() for name in ("not_after", "not_before"))
    renews_at = clock.parse(after["certificate_management_status"]["renews_at"]).timestamp()
    assert end - renews_at == (end - start) // 3
    assert after["certificate_management_status"]["provisioning_job"] is None
    assert challenge_records.find(DOMAIN) is None


def test_a_failed_preflight_costs_the_ca_no_request(admin: Client) -> None:
    address, world = reserved(admin), World()
    failure = AttemptFailed(outcomes.domain_unproved(DOMAIN), "")
    Issuer(WindowedCa(world), failure).run()
    job = status(admin, address)["provisioning_job"]
    assert (job["error_code"], world.calls) == ("domain_unproved", [])
    assert clock.parse(job["retries_at"]).timestamp() - clock.parse(job["started_at"]).timestamp() in (60, 61)
    Issuer(WindowedCa(world), later=62).run()
    assert status(admin, address)["provisioning_job"] is None


def test_a_renewal_names_the_replaced_certificate(admin: Client) -> None:
    address, world = reserved(admin), World()
    Issuer(WindowedCa(world)).run()
    first = admin.get(address).json["certificate"]["id"]
    now = clock.seconds()
    future, past = RenewalWindow(now + 50 * DAY, now + 51 * DAY, 60), RenewalWindow(now - 9, now - 1, 60)
    ca = WindowedCa(world, future)
    Issuer(ca, later=70 * DAY).run()  # the fraction of the lifetime has come, and the CA suggests a time before
    second = admin.get(address).json["certificate"]["id"]
    assert second != first
    assert [certificate is not None for certificate in world.replaced] == [False, True]
    ca.window = past
    Issuer(ca, later=70 * DAY + 61).run()
    assert [certificate is not None for certificate in world.replaced] == [False, True, True]


def test_a_certificate_that_is_not_due_is_only_planned_again(admin: Client) -> None:
    address, world = reserved(admin), World()
    now = clock.seconds()
    ca = WindowedCa(world, RenewalWindow(now + 50 * DAY, now + 51 * DAY, 3600))
    Issuer(ca).run()
    before = status(admin, address)
    ca.window = RenewalWindow(now + 20 * DAY, now + 20 * DAY, 3600)
    Issuer(ca, later=3601).run()
    assert before["renews_at"] > status(admin, address)["renews_at"] == clock.rfc3339(clock.at(now + 20 * DAY))
    assert (len(world.orders), status(admin, address)["provisioning_job"]) == (1, None)


@pytest.mark.parametrize("killed_at", range(1, 9))
def test_a_killed_attempt_is_continued_when_its_claim_has_ended(admin: Client, killed_at: int) -> None:
    address, world = reserved(admin), World(killed_at)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    challenge_records.put(DOMAIN, PENDING)
    Issuer(WindowedCa(world), later=590).run()
    assert admin.get(address).json["certificate"] is None
    Issuer(WindowedCa(world), later=601).run()
    (certificate,) = admin.get("/tls_certificates").json["tls_certificates"]
    assert admin.get(address).json["certificate"]["id"] == certificate["id"]
    events = admin.get(f"/audit_events?resource_id={certificate['id']}").json["audit_events"]
    assert (len(world.orders), len(events), challenge_records.find(DOMAIN)) == (1, 1, None)


def read_retired(world: World, later: int = 0) -> Retired:
    return Retired(WindowedCa(world), 60, now=lambda: clock.seconds() + later)


def read_request(client: Client, address: str) -> x509.CertificateSigningRequest:
    """Return the request of the unfinished order of a domain."""
    due = renewal_schedule.find(client.account, address.rpartition("/")[2])
    assert due
    order = issued_certificates.find_order(due)
    assert order
    return x509.load_der_x509_csr(order.request)


def lose_orders(world: World) -> None:
    """Make the CA answer about all orders as it does to another account."""
    world.orders = dict.fromkeys(world.orders, "absent")


def test_an_order_that_the_ca_does_not_have_for_our_account_is_replaced_at_once(admin: Client) -> None:
    address, world = reserved(admin), World(killed_at=4)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    lose_orders(world)
    Issuer(WindowedCa(world), later=601).run()
    assert (len(world.orders), status(admin, address)["provisioning_job"]) == (2, None)
    (certificate,) = admin.get("/tls_certificates").json["tls_certificates"]
    assert admin.get(address).json["certificate"]["id"] == certificate["id"]


def test_a_domain_that_must_not_be_ordered_any_more_costs_no_order_instead_of_a_lost_one(admin: Client) -> None:
    address, world = reserved(admin), World(killed_at=4)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    lose_orders(world)
    failure = AttemptFailed(outcomes.caa_forbids(DOMAIN, ()), "")
    Issuer(WindowedCa(world), failure, later=601).run()
    assert (len(world.orders), status(admin, address)["provisioning_job"]["error_code"]) == (1, "caa_forbids")


def test_a_ca_that_forgets_every_order_gets_few_of_them(admin: Client) -> None:
    class ForgetfulCa(WindowedCa):
        def status(self, order: str) -> str:
            return "absent"

        def challenges(self, order: str, method: str) -> list[Challenge]:
            raise AttemptFailed(outcomes.internal(), "no order")

    address, world = reserved(admin), World()
    for later in range(0, 40000, 4000):
        Issuer(ForgetfulCa(world), later=later).run()
        admin.post(f"{address}/verify", None)
    assert len(world.orders) == 5
    assert status(admin, address)["provisioning_job"]["error_code"] == "rate_limited"


def test_a_policy_that_ended_with_an_order_of_a_lost_account_is_cleaned_up(admin: Client) -> None:
    address, world = reserved(admin), World(killed_at=4)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    lose_orders(world)
    admin.delete(f"{address}/certificate_management_policy")
    Issuer(WindowedCa(world), later=601).run()
    assert renewal_schedule.find_due(clock.seconds() + DAY, 10) == []


def test_a_policy_that_ended_during_an_attempt_is_cleaned_up(admin: Client) -> None:
    address, world = reserved(admin), World(killed_at=4)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    challenge_records.put(DOMAIN, PENDING)
    admin.delete(f"{address}/certificate_management_policy")
    Issuer(WindowedCa(world), later=601).run()
    assert renewal_schedule.find_due(clock.seconds() + DAY, 10) == []
    assert challenge_records.find(DOMAIN) is None
    assert admin.get("/tls_certificates").json["tls_certificates"] == []


def test_a_certificate_for_a_domain_that_was_lost_meanwhile_is_revoked_and_unused(admin: Client) -> None:
    address, world = reserved(admin), World()
    id = address.rpartition("/")[2]

    class SlowCa(WindowedCa):
        def download(self, order: str) -> str:
            if not world.issued:
                with ThreadPoolExecutor(1) as edge_host:  # an edge host has other rights than the issuer
                    edge_host.submit(prove, id, "lapsed").result()
            return super().download(order)

    Issuer(SlowCa(world)).run()
    assert status(admin, address)["provisioning_job"]["error_code"] == "domain_unproved"
    assert admin.get("/tls_certificates").json["tls_certificates"] == []
    for _ in range(2):
        read_retired(world).revoke_lost()
    ((revoked, reason),) = world.revoked
    assert (revoked, reason) == (x509.load_pem_x509_certificate(world.issued["https://ca.example/0"].encode()), 5)
    calls = len(world.calls)
    Issuer(WindowedCa(world), later=62).run()
    assert (len(world.calls), len(world.revoked)) == (calls, 1)

    prove(id)
    Issuer(WindowedCa(world), later=125).run()
    assert (len(world.orders), bool(admin.get(address).json["certificate"])) == (2, True)


@pytest.mark.parametrize("killed_at", [4, 8])
def test_an_order_of_a_domain_that_is_not_proved_any_more_is_not_continued(admin: Client, killed_at: int) -> None:
    address, world = reserved(admin), World(killed_at)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    challenge_records.put(DOMAIN, PENDING)
    prove(address.rpartition("/")[2], "lapsed")
    Issuer(WindowedCa(world), later=601).run()
    assert status(admin, address)["provisioning_job"]["error_code"] == "domain_unproved"
    read_retired(world).revoke_lost()
    assert (challenge_records.find(DOMAIN), len(world.revoked)) == (None, len(world.issued))
    assert "finalize" not in world.calls[killed_at:]


@pytest.mark.parametrize("end", ["policy", "reservation"])
def test_an_unwanted_certificate_is_revoked_when_the_ca_is_back(admin: Client, end: str) -> None:
    address, world = reserved(admin), World()

    class EndingCa(WindowedCa):
        def download(self, order: str) -> str:
            with ThreadPoolExecutor(1) as api:  # the API has other rights than the issuer
                path = f"{address}/certificate_management_policy" if end == "policy" else address
                assert api.submit(admin.delete, path).result().status == 204
            return super().download(order)

    Issuer(EndingCa(world)).run()
    Issuer(WindowedCa(world), later=601).run()
    assert admin.get("/tls_certificates").json["tls_certificates"] == []
    assert renewal_schedule.find_due(clock.seconds() + DAY, 10) == []
    world.is_away = True
    read_retired(world).revoke_lost()
    assert (world.revoked, world.refused) == ([], 1)
    read_retired(world, 30).revoke_lost()  # too early, also for another issuer
    assert world.refused == 1
    for later in range(60, 100 * DAY, DAY // 24):
        read_retired(world, later).revoke_lost()
    assert 80 < world.refused < 100  # in the end daily, until the certificate ends
    assert issued_certificates.find_lost(_EVER) == []


def test_a_revocation_that_failed_follows(admin: Client) -> None:
    address, world = reserved(admin), World()

    class EndingCa(WindowedCa):
        def download(self, order: str) -> str:
            with ThreadPoolExecutor(1) as api:
                api.submit(admin.delete, f"{address}/certificate_management_policy").result()
            return super().download(order)

    Issuer(EndingCa(world)).run()
    world.is_away = True
    read_retired(world).revoke_lost()
    world.is_away = False
    read_retired(world, 90).revoke_lost()
    ((revoked, _),) = world.revoked
    assert revoked == x509.load_pem_x509_certificate(world.issued["https://ca.example/0"].encode())
    assert issued_certificates.find_lost(_EVER) == []


def test_an_order_that_cannot_be_read_is_given_up_later_although_its_policy_ended_meanwhile(admin: Client) -> None:
    address, world = reserved(admin), World(killed_at=8)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    world.orders = dict.fromkeys(world.orders, "valid")
    world.requests = {order: read_request(admin, address) for order in world.orders}
    prove(address.rpartition("/")[2], "lapsed")

    class AwayCa(WindowedCa):
        def status(self, order: str) -> str:
            with ThreadPoolExecutor(1) as api:
                api.submit(admin.delete, f"{address}/certificate_management_policy").result()
            raise AttemptFailed(outcomes.ca_unreachable(), "away")

    Issuer(AwayCa(world), later=601).run()
    Issuer(WindowedCa(world), later=6000).run()
    read_retired(world).revoke_lost()
    assert len(world.revoked) == 1
    assert renewal_schedule.find_due(clock.seconds() + DAY, 10) == []


@pytest.mark.parametrize("is_proof_lost", [True, False])
def test_a_certificate_that_the_ca_issues_after_the_domain_was_lost_is_revoked(
    admin: Client, *, is_proof_lost: bool
) -> None:
    address, world = reserved(admin), World(killed_at=8)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    world.orders = dict.fromkeys(world.orders, "processing")
    world.requests = {order: read_request(admin, address) for order in world.orders}
    if is_proof_lost:
        prove(address.rpartition("/")[2], "lapsed")
    else:
        admin.delete(f"{address}/certificate_management_policy")
    Issuer(WindowedCa(world), later=601).run()
    world.orders = dict.fromkeys(world.orders, "valid")
    Issuer(WindowedCa(world), later=1000).run()
    read_retired(world).revoke_lost()
    assert [certificate.public_bytes(Encoding.PEM).decode() for certificate, _ in world.revoked] == [
        *world.issued.values()
    ]
    assert len(world.revoked) == 1


def test_an_order_goes_on_while_the_proof_of_its_domain_lapses(admin: Client) -> None:
    address, world = reserved(admin), World(8)
    with pytest.raises(Killed):
        Issuer(WindowedCa(world)).run()
    prove(address.rpartition("/")[2], "lapsing")
    Issuer(WindowedCa(world), later=601).run()
    assert (len(world.orders), len(world.revoked), bool(admin.get(address).json["certificate"])) == (1, 0, True)


def test_a_suspended_account_gets_no_certificate_until_it_is_resumed(admin: Client) -> None:
    address, world = reserved(admin), World()
    suspensions.suspend_id(admin.account)
    Issuer(WindowedCa(world)).run()
    Issuer(WindowedCa(world), later=3601).run()
    assert world.calls == []
    suspensions.resume_id(admin.account)
    Issuer(WindowedCa(world), later=7202).run()
    assert admin.get(address).json["certificate"]
