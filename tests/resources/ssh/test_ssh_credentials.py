"""SSH credentials (SPEC 2.3, 4.2): keys that are unique in the whole service, rules, and what a gateway asks for."""

from dataclasses import asdict
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib import ids
from chalicelib.crypto import keys, public_keys
from chalicelib.model.ssh import acl, credentials
from chalicelib.operator import owners
from chalicelib.storage.client import aws
from tests.refusals import assert_invalid, assert_not_found, assert_refused
from tests.samples import public_key
from tests.transports import Answer, Client, key_in

PATH = "/ssh_credentials"
UNIQUE = "must be a value that no other resource uses"


def find_credential(key: str) -> dict[str, Any] | None:
    """Return the credential that a gateway finds by the key that a client presents."""
    credential = credentials.find_by_fingerprint(public_keys.fingerprint(key))
    return asdict(credential) if credential else None


def assert_taken(answer: Answer) -> None:
    assert_refused(answer, 409, "conflict", "'public_key' is in use already.", {"public_key": UNIQUE})


def test_a_credential_is_shown_whole_and_its_key_verbatim(admin: Client) -> None:
    key, rules = f"  {public_key()}  ada@home\n", ["bind:*.Example.com", "bind:[::1]:22", "bind:env=*"]
    credential = admin.create(PATH, {"description": "d", "metadata": "m", "public_key": key, "acl": rules})
    assert credential == {
        "id": credential["id"],
        "uri": f"http://localhost{PATH}/{credential['id']}",
        "created_at": credential["created_at"],
        "created_by": key_in(admin.token),
        "description": "d",
        "metadata": "m",
        "public_key": key,
        "acl": rules,
        "owner_id": admin.user,
    }
    assert admin.get(f"{PATH}/{credential['id']}").json == credential


@pytest.mark.parametrize("absent", [{}, {"acl": []}, {"acl": None}])
def test_without_rules_a_credential_has_no_restrictions(admin: Client, absent: dict[str, Any]) -> None:
    key = public_key()
    assert admin.create(PATH, {"public_key": key, **absent})["acl"] == []
    credential = credentials.find_by_fingerprint(public_keys.fingerprint(key))
    assert credential is not None
    assert acl.permits(credential.acl, "any.example.com")


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (None, "must be a string"),
        (7, "must be a string"),
        ("ssh-ed25519 " + "A" * 16_384, "must be at most 16384 bytes of UTF-8"),
        ("ssh-ed25519 AAAA", "must contain an undamaged rsa, ecdsa or ed25519 public key"),
        (
            "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
            "must be a public key; this is a private key, which you should never share",
        ),
    ],
)
def test_a_key_that_is_none_is_refused_with_a_reason_and_not_repeated(admin: Client, key: Any, sentence: str) -> None:
    answer = admin.post(PATH, {"public_key": key})
    assert_invalid(answer, {"public_key": sentence})
    assert "c2VjcmV0" not in answer.text


def test_every_bad_rule_is_named_by_its_index(admin: Client) -> None:
    rules = ["allow:a", "*", "bind:*.example.com:22", 7, "bind:example.com", None]
    errors = {
        "acl.0": "must be '*' or start with 'bind:'",
        "acl.2": "must not have both a wildcard and a port",
        "acl.3": "must be a string",
        "acl.5": "must be a string",
    }
    assert_invalid(admin.post(PATH, {"public_key": public_key(), "acl": rules}), errors)
    credential = admin.create(PATH, {"public_key": public_key()})
    assert_invalid(admin.patch(f"{PATH}/{credential['id']}", {"acl": rules}), errors)
    assert_invalid(admin.patch(f"{PATH}/{credential['id']}", {"acl": "*"}), {"acl": "must be an array"})


def test_there_are_at_most_1000_rules_of_32_kib_together(admin: Client) -> None:
    many = ["*"] * 1001
    assert_invalid(
        admin.post(PATH, {"public_key": public_key(), "acl": many}), {"acl": "must have at most 1000 entries"}
    )
    long = ["bind:k=" + "v" * 249] * 128  # 256 bytes each
    large = [*long, "*"]
    sentence = "must have rules of at most 32768 bytes in total, in UTF-8"
    assert_invalid(admin.post(PATH, {"public_key": public_key(), "acl": large}), {"acl": sentence})
    for rules in (many[1:], long):
        credential = admin.create(PATH, {"public_key": public_key(), "acl": rules})
        assert admin.get(f"{PATH}/{credential['id']}").json["acl"] == rules


words = st.text("ab0-*é", min_size=1, max_size=5)
rules = st.one_of(
    st.just("*"),
    st.tuples(st.sampled_from(["", "*."]), words, words).map(lambda parts: "bind:{}{}.{}".format(*parts)),
    st.tuples(words, st.integers(-1, 65_536)).map(lambda parts: "bind:{}:{}".format(*parts)),
    st.tuples(words, words).map(lambda parts: "bind:{}={}".format(*parts)),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rules=st.lists(rules, max_size=4))
def test_accepted_rules_come_back_as_they_were_and_others_leave_all_as_it_was(admin: Client, rules: list[str]) -> None:
    key = public_key()
    before = admin.create(PATH, {"public_key": key, "acl": ["bind:before.example"]})
    answer = admin.patch(before["uri"].removeprefix("http://localhost"), {"acl": rules})
    after = admin.get(f"{PATH}/{before['id']}").json
    if answer.status == 200:
        assert answer.json == after == {**before, "acl": rules}
    else:
        assert (answer.status, after) == (400, before)
    assert (find_credential(key) or {})["acl"] == after["acl"]


def test_only_an_admin_names_another_owner(admin: Client, member: Client, stranger: Client) -> None:
    credential = admin.create(PATH, {"public_key": public_key(), "owner_id": member.user})
    assert credential["owner_id"] == member.user
    assert member.create(PATH, {"public_key": public_key()})["owner_id"] == member.user
    answer = member.post(PATH, {"public_key": public_key(), "owner_id": admin.user})
    details = {"owner_id": "must be absent or your own id"}
    assert_refused(answer, 403, "forbidden", "Only an admin may set another owner_id.", details)
    for nobody in (stranger.user, ids.new("usr"), ids.new("bot")):
        answer = admin.post(PATH, {"public_key": public_key(), "owner_id": nobody})
        details = {"owner_id": "must be the id of a user or bot of this account"}
        assert_refused(answer, 400, "unknown_reference", "'owner_id' names no user or bot of this account.", details)


def test_a_key_serves_one_credential_in_the_whole_service(admin: Client, stranger: Client) -> None:
    line = public_key()
    first = admin.create(PATH, {"public_key": line})
    for client in (admin, stranger):
        for again in (line, f"{line} with a comment", f"\n{line}\n"):
            assert_taken(client.post(PATH, {"public_key": again}))
    assert [credential["id"] for credential in admin.all(PATH, "ssh_credentials")] == [first["id"]]
    assert list(stranger.all(PATH, "ssh_credentials")) == []


def test_the_same_key_in_pem_is_the_same_key(admin: Client, stranger: Client) -> None:
    key = keys.generate_ecdsa("nistp384").public_key()
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    credential = admin.create(PATH, {"public_key": pem})
    assert credential["public_key"] == pem
    assert_taken(stranger.post(PATH, {"public_key": keys.authorized_key(key)}))


def test_a_refused_creation_does_not_use_up_the_key(admin: Client) -> None:
    key = public_key()
    assert admin.post(PATH, {"public_key": key, "acl": ["bind:"]}).status == 400
    assert admin.post(PATH, {"public_key": key, "owner_id": ids.new("usr")}).status == 400
    assert find_credential(key) is None
    admin.create(PATH, {"public_key": key})


def test_a_deleted_credential_releases_its_key(admin: Client, stranger: Client) -> None:
    key = public_key()
    first = admin.create(PATH, {"public_key": key, "acl": ["bind:a.example"]})
    admin.patch(f"{PATH}/{first['id']}", {"acl": ["bind:b.example"]})
    assert admin.delete(f"{PATH}/{first['id']}").status == 204
    assert find_credential(key) is None
    second = stranger.create(PATH, {"public_key": key})
    assert find_credential(key) == {
        "account": stranger.account,
        "id": second["id"],
        "owner_id": stranger.user,
        "acl": [],
    }
    assert_not_found(admin.delete(f"{PATH}/{first['id']}"), PATH)
    assert_not_found(admin.patch(f"{PATH}/{first['id']}", {"acl": ["*"]}), PATH)
    assert find_credential(key) == {
        "account": stranger.account,
        "id": second["id"],
        "owner_id": stranger.user,
        "acl": [],
    }


def test_a_gateway_finds_a_credential_of_any_account_by_its_key(admin: Client) -> None:
    key = public_key()
    assert find_credential(key) is None
    bot = owners.add_owner(admin.account, "bot", "b", admin=False)
    credential = admin.create(PATH, {"public_key": f"{key} comment", "acl": ["bind:a.example"], "owner_id": bot.id})
    expected = {"account": admin.account, "id": credential["id"], "owner_id": bot.id, "acl": ["bind:a.example"]}
    assert find_credential(key) == expected
    admin.patch(f"{PATH}/{credential['id']}", {"acl": ["bind:b.example"], "description": "d"})
    assert find_credential(key) == {**expected, "acl": ["bind:b.example"]}


def test_a_gateway_asks_the_store_once(admin: Client) -> None:
    key, calls = public_key(), []
    admin.create(PATH, {"public_key": key})
    requests = aws.client("dynamodb").meta.events
    requests.register("before-call.dynamodb", lambda model, **_: calls.append(model.name), unique_id="calls")
    assert find_credential(key) is not None
    requests.unregister("before-call.dynamodb", unique_id="calls")
    assert calls == ["GetItem"]


@pytest.mark.parametrize("operation", ["BatchGetItem", "UpdateItem"])
def test_a_credential_whose_making_breaks_off_lets_in_whoever_its_owner_may(admin: Client, operation: str) -> None:
    bot, key = admin.create("/bot_users", {"name": "deploy"})["id"], public_key()

    def fail(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://store")

    events = aws.client("dynamodb").meta.events
    events.register(f"provide-client-params.dynamodb.{operation}", fail)
    answer = admin.post(PATH, {"public_key": key, "owner_id": bot})
    events.unregister(f"provide-client-params.dynamodb.{operation}", fail)
    assert answer.status == 201
    assert find_credential(key) is not None
    for active in (False, True):
        admin.patch(f"/bot_users/{bot}", {"active": active})
        assert (find_credential(key) is not None) is active


def test_a_change_to_no_rules_lifts_every_restriction_and_any_other_leaves_them(
    admin: Client, stranger: Client
) -> None:
    key = public_key()
    credential = admin.create(PATH, {"public_key": key, "acl": ["bind:a.example"], "description": "d"})
    renamed = admin.patch(f"{PATH}/{credential['id']}", {"description": "new", "acl": None}).json
    assert renamed == {**credential, "description": "new"}
    assert_not_found(stranger.patch(f"{PATH}/{credential['id']}", {"acl": ["*"]}), PATH)
    assert (find_credential(key) or {})["acl"] == ["bind:a.example"]
    changed_credential = admin.patch(f"{PATH}/{credential['id']}", {"acl": [], "metadata": "m"}).json
    assert changed_credential == {**renamed, "acl": [], "metadata": "m"}
    assert admin.get(f"{PATH}/{credential['id']}").json == changed_credential
    assert (find_credential(key) or {})["acl"] == []
