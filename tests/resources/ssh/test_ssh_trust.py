"""GET …/krl and …/public_key: what servers fetch of an SSH authority, without a token. `ssh-keygen` is the judge."""

import base64
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from app import app
from chalicelib import clock, ids
from chalicelib.storage.client import aws, dynamodb
from chalicelib.storage.client.dynamodb import Condition, Write
from tests import gateway, samples
from tests.live.ssh import krls
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.transports import Answer, Client

AUTHORITIES = "/ssh_certificate_authorities"
USERS, HOSTS = "/ssh_user_certificates", "/ssh_host_certificates"
RAW = "application/octet-stream"
Revoked = Callable[[Answer, Any], bool]


@pytest.fixture
def is_revoked(tmp_path_factory: pytest.TempPathFactory) -> Revoked:
    """Return whether ssh-keygen finds a certificate revoked by a raw answer."""

    def is_revoked(answer: Answer, certificate: Any) -> bool:
        return krls.is_revoked(tmp_path_factory.mktemp("krl"), answer.content, certificate["certificate"])

    return is_revoked


@pytest.fixture
def authority(admin: Client) -> str:
    return str(admin.create(AUTHORITIES, {})["id"])


def certify(client: Client, authority: str, kind: str = USERS, **fields: Any) -> Any:
    body = {"ssh_certificate_authority_id": authority, "public_key": samples.public_key()}
    return client.create(kind, {**body, **fields})


def fetch(client: Client, authority: str, query: str = "", **headers: str) -> Answer:
    """Return the list, raw, as a server fetches it: without a token and a version."""
    all_headers = {"Accept": RAW, "Service_Version": "", **headers}
    return client.send("GET", f"{AUTHORITIES}/{authority}/krl{query}", **all_headers)


@pytest.mark.parametrize("kind", [{}, {"private_key_type": "rsa", "key_size": 2048}])
def test_the_list_revokes_what_was_revoked_and_nothing_else(
    admin: Client, nobody: Client, is_revoked: Revoked, kind: dict[str, Any]
) -> None:
    authority = admin.create(AUTHORITIES, kind)["id"]
    deleted, host, active = certify(admin, authority), certify(admin, authority, HOSTS), certify(admin, authority)
    before = fetch(nobody, authority)
    assert [is_revoked(before, certificate) for certificate in (deleted, host, active)] == [False, False, False]
    admin.delete(f"{USERS}/{deleted['id']}")
    admin.create(f"{AUTHORITIES}/{authority}/revocations", {"ssh_host_certificate_id": host["id"]})
    after = fetch(nobody, authority)
    assert [is_revoked(after, certificate) for certificate in (deleted, host, active)] == [True, True, False]


def test_a_revoked_key_takes_all_its_certificates_with_it(
    admin: Client, nobody: Client, authority: str, is_revoked: Revoked
) -> None:
    key = samples.public_key()
    key_certificates = [certify(admin, authority, public_key=key) for _ in range(2)]
    active = certify(admin, authority)
    revocation = admin.create(f"{AUTHORITIES}/{authority}/revocations", {"public_key": key})
    answer = fetch(nobody, authority)
    assert [is_revoked(answer, certificate) for certificate in (*key_certificates, active)] == [True, True, False]
    admin.delete(f"{AUTHORITIES}/{authority}/revocations/{revocation['id']}")
    assert not is_revoked(fetch(nobody, authority), key_certificates[0])


def test_a_raw_list_is_binary_and_else_it_is_base64_text(admin: Client, nobody: Client, authority: str) -> None:
    admin.delete(f"{USERS}/{certify(admin, authority)['id']}")
    raw = fetch(nobody, authority)
    assert (raw.status, raw.headers["content-type"]) == (200, RAW)
    assert raw.content.startswith(b"SSHKRL\n\0")
    for accept in ("", "*/*", "text/plain", "application/json", f"text/plain, {RAW}"):
        text = fetch(nobody, authority, Accept=accept)
        assert (text.status, text.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert base64.b64decode(text.text) == raw.content
        assert text.headers["etag"] != raw.headers["etag"]
    for accept in (RAW.upper(), f"{RAW};q=0.9", f"{RAW}, */*"):
        assert fetch(nobody, authority, Accept=accept).content == raw.content


def test_the_function_hands_the_gateway_a_raw_list_in_base64(admin: Client, nobody: Client, authority: str) -> None:
    address = f"{AUTHORITIES}/{authority}/krl"
    handed = app(gateway.event("GET", address, {"Accept": RAW}), None)
    assert handed["isBase64Encoded"] is True
    assert base64.b64decode(handed["body"]) == fetch(nobody, authority).content
    unchanged = {"Accept": RAW, "If-None-Match": fetch(nobody, authority).headers["etag"]}
    handed = app(gateway.event("GET", address, unchanged), None)
    assert (handed["statusCode"], handed["body"], handed.get("isBase64Encoded", False)) == (304, "", False)


def test_an_authority_without_revocations_has_an_empty_valid_list(
    admin: Client, nobody: Client, authority: str, is_revoked: Revoked
) -> None:
    answer = fetch(nobody, authority)
    assert answer.status == 200
    assert not is_revoked(answer, certify(admin, authority))


def test_a_list_that_has_not_changed_is_not_sent_again(admin: Client, nobody: Client, authority: str) -> None:
    first = fetch(nobody, authority)
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["vary"] == "Accept, Accept-Encoding"
    again = fetch(nobody, authority, If_None_Match=first.headers["etag"])
    assert (again.status, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    revocation = admin.create(f"{AUTHORITIES}/{authority}/revocations", {"serial": "7"})
    answer = fetch(nobody, authority, If_None_Match=first.headers["etag"])
    assert answer.status == 200
    admin.delete(f"{AUTHORITIES}/{authority}/revocations/{revocation['id']}")
    taken_back = fetch(nobody, authority, If_None_Match=answer.headers["etag"])
    assert taken_back.status == 200
    assert taken_back.headers["etag"] not in (first.headers["etag"], answer.headers["etag"])


def reads(send: Callable[[], Answer]) -> tuple[int, int]:
    """Return the status of an answer, and how often the store was asked for it."""
    calls: list[str] = []

    def count(**_: object) -> None:
        calls.append("")

    events = aws.client("dynamodb").meta.events
    events.register_first("before-send.dynamodb", count)
    try:
        return send().status, len(calls)
    finally:
        events.unregister("before-send.dynamodb", count)


def test_a_list_that_has_not_changed_costs_one_read(admin: Client, nobody: Client, authority: str) -> None:
    assert reads(lambda: fetch(nobody, authority)) == (200, 1)
    admin.create(f"{AUTHORITIES}/{authority}/revocations", {"serial": "7"})
    tag = fetch(nobody, authority).headers["etag"]
    assert reads(lambda: fetch(nobody, authority)) == (200, 2)
    assert reads(lambda: fetch(nobody, authority, If_None_Match=tag)) == (304, 1)
    assert reads(lambda: fetch(nobody, ids.new("sshca"))) == (404, 1)


def test_lists_of_one_account_are_merged(admin: Client, nobody: Client, authority: str, is_revoked: Revoked) -> None:
    other = admin.create(AUTHORITIES, {"private_key_type": "ecdsa"})["id"]
    old, new, active = certify(admin, authority), certify(admin, other), certify(admin, other)
    admin.delete(f"{USERS}/{old['id']}")
    admin.delete(f"{USERS}/{new['id']}")
    for first, second in ((authority, other), (other, authority)):
        answer = fetch(nobody, first, f"?also={second}")
        assert [is_revoked(answer, certificate) for certificate in (old, new, active)] == [True, True, False]
        tag = answer.headers["etag"]
        assert fetch(nobody, first, f"?also={second}", If_None_Match=tag).status == 304
        assert fetch(nobody, first, If_None_Match=tag).status == 200
    tag = fetch(nobody, authority, f"?also={other}").headers["etag"]
    admin.delete(f"{USERS}/{active['id']}")
    changed = fetch(nobody, authority, f"?also={other},{authority}", If_None_Match=tag)
    assert (changed.status, is_revoked(changed, active)) == (200, True)


def test_lists_that_are_too_large_together_are_refused_by_their_counts(
    admin: Client, nobody: Client, authority: str
) -> None:
    other_ids = [admin.create(AUTHORITIES, {})["id"] for _ in range(5)]
    for id in (authority, *other_ids):
        full = Write.update(f"krl#{id}", "head", Condition("attribute_exists(#id)"), sets={"count": 100_000})
        dynamodb.do(full)
    also = f"?also={','.join(other_ids)}"
    assert reads(lambda: fetch(nobody, authority, also)) == (409, 1)
    message = "These lists are too large for one answer: request fewer of them at once."
    assert_refused(fetch(nobody, authority, also), 409, "conflict", message)
    assert fetch(nobody, authority, f"?also={','.join(other_ids[1:])}").status == 200


def test_lists_of_two_accounts_are_not_merged(admin: Client, stranger: Client, nobody: Client, authority: str) -> None:
    stranger_authority = stranger.create(AUTHORITIES, {})["id"]
    for also in (stranger_authority, ids.new("sshca")):
        assert_not_found(fetch(nobody, authority, f"?also={also}"), AUTHORITIES)


@pytest.mark.parametrize(
    ("query", "faults"),
    [
        ("?also=", {"also": "must be 1 to 10 ids of the form sshca_…, separated by commas"}),
        ("?also=x", {"also": "must be 1 to 10 ids of the form sshca_…, separated by commas"}),
        ("?also=sshca_x,", {"also": "must be 1 to 10 ids of the form sshca_…, separated by commas"}),
        ("?other=1", {"other": "is not accepted here; accepted: also"}),
    ],
)
def test_a_query_names_authorities(nobody: Client, authority: str, query: str, faults: dict[str, str]) -> None:
    assert_invalid(fetch(nobody, authority, query), faults)


@pytest.mark.parametrize("document", ["krl", "public_key"])
def test_what_is_no_authority_is_not_found(nobody: Client, document: str) -> None:
    for id in ("x", "sshca_short", f"ca_{'0' * 27}", f"sshca_{'0' * 27}"):
        assert_not_found(nobody.send("GET", f"{AUTHORITIES}/{id}/{document}", Service_Version=""), AUTHORITIES)


def test_the_public_key_is_a_line_of_text(admin: Client, nobody: Client) -> None:
    authority = admin.create(AUTHORITIES, {})
    address = f"{AUTHORITIES}/{authority['id']}/public_key"
    answer = nobody.send("GET", address, Service_Version="")
    assert (answer.status, answer.text) == (200, f"{authority['public_key']}\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    again = nobody.send("GET", address, Service_Version="", If_None_Match=answer.headers["etag"])
    assert (again.status, again.text) == (304, "")


def test_what_has_ended_leaves_the_list_which_outlives_its_authority_until_the_last_end(
    admin: Client, nobody: Client, authority: str, is_revoked: Revoked
) -> None:
    soon = clock.rfc3339(clock.now() + timedelta(seconds=4))
    short, long = certify(admin, authority, valid_until=soon), certify(admin, authority, HOSTS)
    deleted_authority = admin.create(AUTHORITIES, {})["id"]
    first, other = (certify(admin, deleted_authority, valid_until=soon) for _ in range(2))
    for address in (f"{USERS}/{short['id']}", f"{HOSTS}/{long['id']}", f"{USERS}/{first['id']}"):
        admin.delete(address)
    admin.delete(f"{AUTHORITIES}/{deleted_authority}")
    admin.delete(f"{USERS}/{other['id']}")
    ends = [
        revocation["valid_until"] for revocation in admin.all(f"{AUTHORITIES}/{authority}/revocations", "revocations")
    ]
    assert ends == [long["valid_until"], soon]
    assert [is_revoked(fetch(nobody, authority), certificate) for certificate in (short, long)] == [True, True]
    assert [is_revoked(fetch(nobody, deleted_authority), certificate) for certificate in (first, other)] == [True, True]
    while clock.now() < clock.parse(soon):
        time.sleep(0.2)
    (entry,) = admin.all(f"{AUTHORITIES}/{authority}/revocations", "revocations")
    assert entry["valid_until"] == long["valid_until"]
    assert [is_revoked(fetch(nobody, authority), certificate) for certificate in (short, long)] == [False, True]
    assert_not_found(fetch(nobody, deleted_authority), AUTHORITIES)


def test_the_list_of_an_authority_that_revoked_nothing_goes_with_it(
    admin: Client, nobody: Client, authority: str
) -> None:
    admin.delete(f"{AUTHORITIES}/{authority}")
    assert_not_found(fetch(nobody, authority), AUTHORITIES)
    assert_not_found(admin.get(f"{AUTHORITIES}/{authority}/revocations"), AUTHORITIES)
