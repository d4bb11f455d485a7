"""Certificates from a CA for the domains of an account, on a whole edge with visitors."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPException

import pytest
from cryptography import x509

from chalicelib import clock
from edge.issuer.rules import renewal_times
from tests.live.edge.acme import issuing, process_memory
from tests.live.edge.acme.issuing import Issuing
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import until, upstream

pytestmark = [needs_envoy, pytest.mark.needs("pebble")]
DOMAIN, STRONG, WILDCARD = "app.example.com", "strong.example.com", "*.wild.example.com"
UNPROVED, ELSEWHERE, LIMITED, LATER = (
    f"{label}.example.com" for label in ("unproved", "elsewhere", "limited", "later")
)
LAST, LOST = "last.example.com", "lost.example.org"
MONTH = timedelta(days=30)
STEPS = (
    *("after order", "before challenges", "after challenges", "before answer", "after answer"),
    *("before finalize", "after finalize", "before download", "after download", "after renewal_window"),
)
CLAIM = 3  # seconds
SECOND = "127.0.0.2"  # the address of another edge host
HOSTS = (["127.0.0.1"], [SECOND], ["127.0.0.1", SECOND])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuing]:
    with issuing.running(tmp_path_factory.mktemp("acme")) as running_issuing, upstream() as port:
        running_issuing.app = running_issuing.reserve(DOMAIN)
        running_issuing.prove(running_issuing.app)
        client = running_issuing.platform.ssh("-R", f"{DOMAIN}:80:127.0.0.1:{port}")
        client.wait_for("is online")
        running_issuing.start_issuer()
        try:
            yield running_issuing
        finally:
            client.kill()


def test_proved_domains_get_their_certificates_and_are_served_with_them(world: Issuing) -> None:
    start = datetime.now(UTC).replace(microsecond=0)
    strong = world.reserve(STRONG)
    world.prove(strong)
    world.order(world.app)
    world.order(strong, private_key_type="rsa")
    world.ca.rejected_nonces = 3
    until(lambda: world.have(world.app, strong), within=40)
    served_certificate = world.read_certificate(world.app)
    until(lambda: world.visit(DOMAIN) == served_certificate, within=2)
    for domain, id, key_type in ((DOMAIN, world.app, "ecdsa"), (STRONG, strong, "rsa")):
        certificate, status = world.certificate(id), world.show(id)["certificate_management_status"]
        assert certificate["subject_alternative_names"] == {"dns_names": [domain], "ips": []}
        assert (certificate["private_key_type"], certificate["description"]) == (key_type, f"Issued for {domain}")
        assert start <= clock.parse(certificate["issued_at"]) <= datetime.now(UTC)
        assert status["provisioning_job"] is None
        assert MONTH <= clock.parse(status["renews_at"]) - start <= MONTH + timedelta(days=2)
        (event,) = world.events(certificate["id"])
        assert (event["action"], event["actor"]["type"]) == ("tls_certificate.create", "edge")
        assert event["details"]["reserved_domain"] == id
        assert "PRIVATE" not in str(event)
        assert len(world.ca.orders_of(domain)) == 1
    assert world.tokens() == []


def test_the_operators_certificate_comes_from_the_ca(world: Issuing) -> None:
    until(lambda: world.operator_certificate() is not None, within=40)
    served_certificate = world.operator_certificate()
    assert served_certificate
    until(lambda: world.visit("nobody.tunnels.localhost") == served_certificate, within=2)
    names = served_certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(names.get_values_for_type(x509.DNSName)) == ["*.tunnels.localhost", "tunnels.localhost"]
    assert len(world.ca.orders_of("tunnels.localhost")) == 1
    assert (len(world.zone.added), world.zone.records) == (2, {})


def test_keys_of_certificates_are_not_in_the_memory_of_the_issuer(world: Issuing) -> None:
    """A core dump would have that memory. Only the key of the account at the CA is in it."""
    assert world.issuer
    keys = world.keys(
        world.certificate(world.app)["id"], world.certificate(world.find(STRONG))["id"], "certificate", "acme"
    )
    assert len(keys) == 4
    account_key = keys.pop("acme")
    memory = process_memory.read(world.issuer.pid)
    if memory is None:  # the kernel does not let the user of these tests read it, nor dump it
        return
    assert process_memory.find(memory, account_key)
    assert [id for id, key in keys.items() if process_memory.find(memory, key)] == []


def test_a_renewal_within_the_window_of_the_ca_fails_no_request(world: Issuing) -> None:
    before = world.read_certificate(world.app)
    replaced = renewal_times.identify(before)
    world.ca.windows[replaced] = time.time() - 20, time.time() - 10
    with visitors(world, 10) as responses:
        world.set_ahead(world.ca.recheck_after + 1)
        until(lambda: world.read_certificate(world.app) != before, within=40)
        served_certificate = world.read_certificate(world.app)
        until(lambda: world.visit(DOMAIN) == served_certificate, within=2)
        count = len(responses)
        until(lambda: len(responses) > count + 20)
    assert set(responses) == {200}
    assert [order.get("replaces") for order in world.ca.orders_of(DOMAIN)] == [None, replaced]


@contextmanager
def visitors(world: Issuing, count: int) -> Iterator[list[int]]:
    """Send requests all the time, half of them over kept connections. Yield the statuses, 0 for a failure."""
    responses, is_over = list[int](), threading.Event()

    def visit(*, keeps: bool) -> None:
        connection = world.connection(DOMAIN)
        while not is_over.is_set():
            try:
                connection.request("GET", "/")
                response = connection.getresponse()
                response.read()
                responses.append(response.status)
            except (OSError, HTTPException):
                responses.append(0)
            if not keeps:
                connection.close()
            time.sleep(0.1)
        connection.close()

    threads = [threading.Thread(target=visit, kwargs={"keeps": number % 2 == 0}) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield responses
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_mistakes_of_owners_cost_the_ca_no_request(world: Issuing) -> None:
    domains = (UNPROVED, ELSEWHERE, WILDCARD)
    ids = {domain: world.reserve(domain) for domain in domains}
    world.names.records[ELSEWHERE, "A"] = ["127.0.0.9"]
    world.names.records.pop((world.show(ids[UNPROVED])["verification"]["name"], "TXT"))
    world.prove(ids[ELSEWHERE], ids[WILDCARD])
    world.order(*ids.values())
    until(lambda: all(world.job(id).get("error_code") for id in ids.values()), within=40)
    jobs = {domain: world.job(id) for domain, id in ids.items()}
    codes = ["domain_unproved", "http_unreachable", "dns_alias_missing"]
    assert [jobs[domain]["error_code"] for domain in domains] == codes
    assert "127.0.0.9" in jobs[ELSEWHERE]["msg"]
    assert world.show(ids[WILDCARD])["acme_challenge_cname_target"] in jobs[WILDCARD]["msg"]
    assert [world.ca.orders_of(domain) for domain in domains] == [[]] * 3


def test_failed_orders_are_made_when_their_obstacle_is_gone(world: Issuing) -> None:
    limited, later, wild = world.reserve(LIMITED), world.reserve(LATER), world.find(WILDCARD)
    count_before = len(world.zone.added)
    world.prove(limited, later)
    world.ca.limited_for = 200
    world.order(limited)
    until(lambda: world.job(limited).get("error_code") == "rate_limited", within=40)
    retries_at = clock.parse(world.job(limited)["retries_at"]).timestamp()
    assert retries_at - time.time() > 190
    world.ca.is_away = True
    world.order(later)
    until(lambda: world.job(later).get("error_code") == "ca_unreachable", within=40)
    assert world.visit(DOMAIN) == world.read_certificate(world.app)
    world.ca.is_away, world.ca.limited_for = False, 0
    world.alias(wild)
    ahead = int(retries_at - time.time()) - 3
    world.set_ahead(ahead)
    until(lambda: world.have(limited, later, wild), within=40)
    assert world.ca.times_of_orders(LIMITED)[1] + ahead >= retries_at
    assert [len(world.ca.orders_of(domain)) for domain in (LIMITED, LATER, WILDCARD)] == [2, 1, 1]
    assert world.certificate(wild)["subject_alternative_names"] == {"dns_names": [WILDCARD], "ips": []}
    assert (len(world.zone.added) - count_before, world.zone.records, world.tokens()) == (1, {}, [])


def test_a_domain_that_passes_to_another_account_loses_its_certificate(world: Issuing) -> None:
    other, certificate = world.newcomer(), world.read_certificate(world.app)
    other_id = other.reserve(DOMAIN)
    assert other.api.post(f"/reserved_domains/{other_id}/verify", None).status == 202
    other.prove(other_id)
    until(lambda: world.visit(DOMAIN) is None, within=5)
    until(lambda: world.ca.revoked == {certificate.serial_number: 5}, within=40)
    assert world.show(world.app)["certificate"] is None


def test_each_edge_host_answers_challenges_and_one_of_two_issuers_orders(world: Issuing) -> None:
    mine = world.newcomer()
    world.add_issuer()
    domains = {f"host-{number}.example.net": addresses for number, addresses in enumerate(HOSTS)}
    ids = {domain: mine.reserve(domain) for domain in domains}
    for domain, addresses in domains.items():
        world.names.records[domain, "A"] = [*addresses]
    with world.another_host(SECOND):
        mine.prove(*ids.values())
        mine.order(*ids.values())
        until(lambda: mine.have(*ids.values()), within=40)
        assert [len(world.ca.orders_of(domain)) for domain in ids] == [1] * len(ids)
        assert mine.tokens() == []


def test_killed_issuers_leave_one_certificate_for_each_domain(world: Issuing) -> None:
    world.end_issuer()
    mine = world.newcomer()
    steps = {f"{'*.' if number % 2 else ''}killed-{number}.example.org": step for number, step in enumerate(STEPS)}
    domains = {domain: mine.reserve(domain) for domain in steps}
    lost, revoked = mine.reserve(LOST), {*world.ca.revoked}
    mine.prove(lost, *domains.values())
    mine.order(lost, *domains.values())
    for id in domains.values():
        mine.alias(id)
    process = world.start_issuer(claim=CLAIM, killed={**steps, LOST: "after finalize"}, keys="process")
    assert process.stdout
    assert process.stdout.readline() == f"{len(STEPS) + 1} killed\n"
    other = world.newcomer()
    other_id = other.reserve(LOST)
    assert other.api.post(f"/reserved_domains/{other_id}/verify", None).status == 202
    other.prove(other_id)
    world.add_issuer()  # two issuers compete for the work that is left
    until(lambda: mine.have(*domains.values()), within=40)
    orders = {domain: mine.ca.times_of_orders(domain) for domain in domains}
    twice = orders.pop(next(domain for domain, step in steps.items() if step == "after order"))
    assert {len(times) for times in orders.values()} == {1}
    assert len(twice) == 2
    assert twice[1] - twice[0] >= CLAIM - 1  # claims end at whole seconds
    until(lambda: len({*world.ca.revoked} - revoked) == 1, within=40)
    assert (len(world.ca.orders_of(LOST)), mine.job(lost)["error_code"]) == (1, "domain_unproved")
    certificates = mine.api.get("/tls_certificates").json["tls_certificates"]
    assert sorted(certificate["id"] for certificate in certificates) == sorted(
        mine.certificate(id)["id"] for id in domains.values()
    )
    assert [len(mine.events(certificate["id"])) for certificate in certificates] == [1] * len(domains)
    assert (mine.zone.records, mine.tokens()) == ({}, [])


def test_the_edge_starts_an_issuer_if_a_directory_is_set(world: Issuing) -> None:
    world.end_issuer()
    assert not world.platform.child("edge issuer")
    last = world.reserve(LAST)
    world.prove(last)
    world.order(last)
    world.restart_edge()
    until(lambda: world.have(last), within=40)
    assert world.platform.child("edge issuer")
    assert (len(world.ca.orders_of(LAST)), world.tokens()) == (1, [])
