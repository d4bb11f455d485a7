"""The keys that a federated credential issued, and those that these made: disabled, enabled and counted with it."""

from collections.abc import Iterator

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.federation import exchanges
from tests.federation.exchanges import Issuer, assert_refused, exchange
from tests.queries import reads
from tests.refusals import assert_refused as assert_refusal
from tests.storage.interrupting import before_transaction
from tests.transports import Client

DISABLED = "The federated credential that issued the API key is disabled."
LIST = "/backends/weighted"


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with exchanges.serve_allowed_issuer(monkeypatch) as issuer:
        yield issuer


def signed_in(admin: Client, issuer: Issuer, credential: str) -> Client:
    return admin.with_token(exchange(admin, issuer.token(credential), credential).json["access_token"])


def child(key: Client) -> Client:
    return key.with_token(key.create("/api_keys", {})["token"])


def credential_of(admin: Client, issuer: Issuer) -> tuple[str, str]:
    id = issuer.credential(admin, scopes=["api_keys:write", "backends:read"])["id"]
    return id, f"/federated_credentials/{id}"


def test_the_keys_of_a_disabled_credential_are_inactive(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    key = signed_in(admin, issuer, id)
    orphan = child(parent := child(key))
    assert parent.delete("/api_keys/self").status == 204
    tree, other = (key, child(key), orphan), signed_in(admin, issuer, credential_of(admin, issuer)[0])
    assert admin.patch(path, {"enabled": False}).json["enabled"] is False
    for client in tree:
        assert_refusal(client.get(LIST), 401, "unauthenticated", DISABLED)
    assert (other.get(LIST).status, admin.get(LIST).status) == (200, 200)
    assert_refused(exchange(admin, issuer.token(id), id))
    assert admin.patch(path, {"enabled": True}).json["enabled"] is True
    assert [client.get(LIST).status for client in tree] == [200] * 3
    assert parent.get(LIST).status == 401


def test_keys_of_credentials_that_its_keys_created_are_inactive_too(admin: Client, issuer: Issuer) -> None:
    ids = [issuer.credential(admin, scopes=["*"])["id"]]
    keys = [signed_in(admin, issuer, ids[0])]
    for _ in range(2):
        ids.append(issuer.credential(keys[-1], scopes=["*"])["id"])
        keys.append(child(signed_in(admin, issuer, ids[-1])))

    def switch(index: int, to: bool) -> list[int]:
        """Return the statuses of the keys, then of exchanges, after a switch."""
        path = f"/federated_credentials/{ids[index]}"
        assert admin.patch(path, {"enabled": to}).json["enabled"] is to
        return [key.get(LIST).status for key in keys] + [exchange(admin, issuer.token(id), id).status for id in ids]

    assert switch(0, False) == [401, 401, 401, 400, 400, 400]
    assert switch(2, False) == [401, 401, 401, 400, 400, 400]
    assert switch(0, True) == [200, 200, 401, 200, 200, 400]
    assert switch(1, False) == [200, 401, 401, 200, 400, 400]
    assert switch(2, True) == [200, 401, 401, 200, 400, 400]
    assert switch(1, True) == [200, 200, 200, 200, 200, 200]
    with before_transaction(1, lambda: switch(0, False)):
        assert_refusal(keys[2].post("/api_keys", {}), 401, "unauthenticated", DISABLED)


def test_a_credential_outlives_the_one_whose_key_created_it(admin: Client, issuer: Issuer) -> None:
    id = issuer.credential(admin, scopes=["*"])["id"]
    inner = issuer.credential(key := signed_in(admin, issuer, id), scopes=["*"])["id"]
    assert key.delete("/api_keys/self").status == 204
    later = signed_in(admin, issuer, inner)
    msg = "1 valid API keys descend from the credential: offboard the credential first."
    assert_refusal(admin.delete(f"/federated_credentials/{id}"), 409, "conflict", msg)
    assert later.delete("/api_keys/self").status == 204
    assert admin.delete(f"/federated_credentials/{id}").status == 204
    assert signed_in(admin, issuer, inner).get(LIST).status == 200


def test_a_chain_of_credentials_is_bounded(admin: Client, issuer: Issuer) -> None:
    key = admin
    for _ in range(8):
        key = signed_in(admin, issuer, issuer.credential(key, scopes=["*"])["id"])
    answer = key.post("/federated_credentials", issuer.fields(owner_id=admin.user))
    msg = (
        "More than 8 federated credentials in a chain, each created with a key of the previous one, are not permitted."
    )
    assert_refusal(answer, 409, "conflict", msg)


def test_a_credential_is_shown_as_enabled_until_its_keys_are_inactive(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    key = signed_in(admin, issuer, id)

    def fail() -> None:
        raise EndpointConnectionError(endpoint_url="http://store")

    with before_transaction(2, fail):
        assert admin.patch(path, {"enabled": False}).status == 503
    assert (admin.get(path).json["enabled"], key.get(LIST).status) == (True, 200)
    assert_refused(exchange(admin, issuer.token(id), id))
    assert admin.patch(path, {"enabled": False}).json["enabled"] is False
    assert key.get(LIST).status == 401


def test_a_key_that_is_made_while_the_credential_is_disabled_is_covered(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    key = signed_in(admin, issuer, id)
    with before_transaction(1, lambda: admin.patch(path, {"enabled": False})):
        assert_refusal(key.post("/api_keys", {}), 401, "unauthenticated", DISABLED)
    admin.patch(path, {"enabled": True})
    with before_transaction(1, lambda: admin.patch(path, {"enabled": False})):
        assert_refused(exchange(admin, issuer.token(id), id))
    assert admin.get(f"{path}/usage").json["last_refusal"]["reason"] == "disabled"


def test_a_credential_with_live_keys_is_not_deleted(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    key = signed_in(admin, issuer, id)
    child(key)
    msg = "2 valid API keys descend from the credential: offboard the credential first."
    assert_refusal(admin.delete(path), 409, "conflict", msg)
    for entry in admin.get("/api_keys").json["keys"]:
        if entry["created_by"] != "operator":
            assert admin.delete(f"/api_keys/{entry['id']}").status == 204
    assert admin.delete(path).status == 204
    assert_refused(exchange(admin, issuer.token(id), id))


def test_an_exchange_while_its_credential_is_deleted_gets_nothing(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    answers = []
    token = issuer.token(id)
    with before_transaction(1, lambda: answers.append(exchange(admin, token, id))):
        assert admin.delete(path).status == 204
    assert_refused(answers[0])
    assert [key["created_by"] for key in admin.get("/api_keys").json["keys"]] == ["operator"]


def test_a_credential_that_could_not_be_deleted_continues(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)

    def fail() -> None:
        raise EndpointConnectionError(endpoint_url="http://store")

    with before_transaction(1, fail):
        assert admin.delete(path).status == 503
    assert exchange(admin, issuer.token(id), id).status == 200
    msg = "1 valid API keys descend from the credential: offboard the credential first."
    assert_refusal(admin.delete(path), 409, "conflict", msg)
    assert exchange(admin, issuer.token(id), id).status == 200


def test_a_change_while_a_credential_is_deleted_is_effective(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    with before_transaction(1, lambda: admin.patch(path, {"description": "changed"})):
        assert admin.delete(path).status == 204
    assert_refused(exchange(admin, issuer.token(id), id))


def test_keys_from_before_the_longest_lifetime_are_not_read(admin: Client, issuer: Issuer) -> None:
    id, path = credential_of(admin, issuer)
    signed_in(admin, issuer, id)
    with reads() as counts:
        assert admin.patch(path, {"enabled": False}).status == 200
    assert counts == [2]  # the two keys of the last 12 hours
