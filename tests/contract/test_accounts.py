"""Two accounts: what one has is to the other as if it were not there."""

from chalicelib import ids
from tests.contract.answers import NOT_FOUND, Refused
from tests.samples import public_key
from tests.transports import Client


def test_what_another_account_has_is_not_found(client: Client, stranger: Client) -> None:
    authority = client.create("/ssh_certificate_authorities", {})
    address = f"/ssh_certificate_authorities/{authority['id']}"
    for answer in (stranger.get(address), stranger.patch(address, {"metadata": "mine"}), stranger.delete(address)):
        NOT_FOUND.check(answer)
    assert client.get(address).json == authority


def test_a_list_shows_nothing_of_a_stranger(client: Client, stranger: Client) -> None:
    own_edge, stranger_edge = client.create("/edges/tls", {}), stranger.create("/edges/tls", {})
    own_edges, listed_there = (caller.get("/edges/tls").json["tls_edges"] for caller in (client, stranger))
    assert own_edge in own_edges
    assert stranger_edge in listed_there
    assert [edge for edge in own_edges if edge in listed_there] == []


def test_a_module_of_a_stranger_on_the_same_edge_is_another_one(client: Client, stranger: Client) -> None:
    address = f"/edges/tcp/{ids.new('edgtcp')}/traffic_policy"
    assert client.put(address, {"value": "{}"}).status == 200
    NOT_FOUND.check(stranger.get(address))
    NOT_FOUND.check(stranger.delete(address))
    assert client.get(address).json == {"enabled": True, "value": "{}"}


def test_what_a_stranger_has_cannot_be_referred_to(client: Client, stranger: Client) -> None:
    field = "ssh_certificate_authority_id"
    authority_id = stranger.create("/ssh_certificate_authorities", {})["id"]
    answer = client.post("/ssh_user_certificates", {field: authority_id, "public_key": public_key()})
    rule = {field: "must be an id listed at /ssh_certificate_authorities"}
    Refused(400, "unknown_reference", rule).check(answer)


def test_a_limited_key_sees_itself(client: Client) -> None:
    key = client.create("/api_keys", {"scopes": ["edges:read"]})
    limited = client.with_token(key["token"])
    assert limited.get("/me").json["key"] == {"id": key["id"], "scopes": ["edges:read"], "expires_at": None}
    assert limited.get("/api_keys/self").json["id"] == key["id"]
    assert limited.get("/api_keys").status == 403
    assert client.get(f"/api_keys/{key['id']}/usage").json["denied_last_hour"] == 1
