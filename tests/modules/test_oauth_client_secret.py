"""The OAuth client secret: which keys see it, in which responses, and what that means for entity tags."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chalicelib.modules import oauth
from tests.modules import damage
from tests.modules.samples import anywhere, on_a_holder
from tests.refusals import assert_invalid
from tests.transports import Answer, Client

(OAUTH,) = oauth.MODULES
SECRET = "a-client-secret-that-occurs-once"
SECRET_PLACE = ("provider", "gitlab", "client_secret")
MODULE = {"provider": {"gitlab": {"client_id": "an app", "client_secret": SECRET, "scopes": ["openid"]}}}
READERS = (["*:read"], ["edges:read"], ["edges:read", "api_keys:write"], ["*:read", "backends:write"])
WRITERS = (None, ["*"], ["*:read", "edges:write"], ["edges:read", "edges:write"])


def key(admin: Client, scopes: list[str] | None) -> Client:
    """Return a client with a new key of these scopes."""
    return admin.with_token(admin.create("/api_keys", {"scopes": scopes})["token"])


def addresses(module: str) -> list[str]:
    """Return the addresses of all responses that contain the module."""
    route, edge = module.removesuffix("/oauth"), module.partition("/routes")[0]
    return [module, route, f"{edge}/routes", edge, "/edges/https"]


def without_secret(value: Any) -> Any:
    """Return JSON with every client secret replaced by an empty string."""
    if isinstance(value, list):
        return [without_secret(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {name: "" if name == "client_secret" else without_secret(entry) for name, entry in value.items()}


@contextmanager
def damaged_secret(module: str) -> Iterator[None]:
    """Replace the ciphertext of a route's client secret by one that cannot be decrypted, within this block."""
    intact = damage.replace_secret(module, *SECRET_PLACE)
    yield
    damage.replace_secret(module, *SECRET_PLACE, sealed=intact)


def read(client: Client, module: str) -> list[Answer]:
    return [client.get(address) for address in addresses(module)]


@pytest.mark.parametrize("scopes", WRITERS)
def test_a_key_that_may_write_edges_sees_the_secret(admin: Client, scopes: list[str] | None) -> None:
    module = on_a_holder(admin, OAUTH)
    admin.put(module, MODULE)
    assert [answer.text.count(SECRET) for answer in read(key(admin, scopes), module)] == [1] * 5


@pytest.mark.parametrize("scopes", READERS)
def test_any_other_key_gets_an_empty_string_in_every_response(admin: Client, scopes: list[str]) -> None:
    module = on_a_holder(admin, OAUTH)
    admin.put(module, MODULE)
    for admin_answer, answer in zip(read(admin, module), read(key(admin, scopes), module), strict=True):
        assert (answer.status, answer.json) == (200, without_secret(admin_answer.json))
        assert answer.headers["cache-control"] == "no-store"


def test_an_admins_key_that_only_reads_sees_no_more_than_a_members(admin: Client, member: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    admin.put(module, MODULE)
    bodies = [key(caller, ["*:read"]).get(module).json for caller in (admin, member)]
    assert bodies == [without_secret(admin.get(module).json)] * 2
    assert key(member, None).get(module).json == admin.get(module).json


def test_a_secret_that_is_not_shown_is_not_decrypted(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    admin.put(module, MODULE)
    reader = key(admin, ["*:read"])
    with damaged_secret(module):
        assert [answer.status for answer in read(reader, module)] == [200] * 5
        assert [answer.status for answer in read(admin, module)] == [500] * 5


def test_a_secret_that_cannot_be_decrypted_can_be_set_again(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    admin.put(module, MODULE)
    damage.replace_secret(module, *SECRET_PLACE)
    answer = admin.put(module, MODULE)
    assert (answer.status, answer.text.count(SECRET)) == (200, 1)


def test_a_key_that_writes_without_reading_sees_what_its_changes_made(admin: Client) -> None:
    writer = key(admin, ["edges:write"])
    module = anywhere(OAUTH)
    assert writer.put(module, MODULE).text.count(SECRET) == 1
    edge = writer.create("/edges/https", {})["id"]
    routes, body = f"/edges/https/{edge}/routes", {"match": "/", "match_type": "path_prefix", "oauth": MODULE}
    creation = writer.send("POST", routes, body, Idempotency_Key="one")
    assert creation.text.count(SECRET) == 1
    assert writer.send("POST", routes, body, Idempotency_Key="one").text == creation.text
    assert writer.patch(f"{routes}/{creation.json['id']}", {"description": "x"}).text.count(SECRET) == 1
    assert writer.get(module).status == 403


def test_a_readers_tag_is_of_what_the_reader_receives(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    route = module.removesuffix("/oauth")
    admin.put(module, MODULE)
    reader = key(admin, ["*:read"])
    for address, change in ((module, "PUT"), (route, "PATCH")):
        reader_tag, admin_tag = reader.get(address).headers["etag"], admin.get(address).headers["etag"]
        assert reader_tag != admin_tag
        assert reader.send("GET", address, If_None_Match=reader_tag).status == 304
        assert reader.send("GET", address, If_None_Match=admin_tag).status == 200
        assert admin.send("GET", address, If_None_Match=reader_tag).status == 200
        body = MODULE if change == "PUT" else {"description": "x"}
        assert admin.send(change, address, body, If_Match=reader_tag).status == 412
        assert admin.send(change, address, body, If_Match=admin_tag).status == 200


def test_a_readers_copy_never_erases_the_secret(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    before = admin.put(module, MODULE).json
    copy = key(admin, ["*:read"]).get(module).json
    refusal = admin.put(module, copy)
    assert_invalid(refusal, {"provider.gitlab.client_secret": "must be given together with client_id, or not at all"})
    assert admin.get(module).json == before


def test_a_module_without_an_app_looks_the_same_to_everyone(admin: Client) -> None:
    module = on_a_holder(admin, OAUTH)
    creation = admin.put(module, {"provider": {"google": {"email_domains": ["example.com"]}}})
    read = key(admin, ["*:read"]).get(module)
    assert (read.json, read.headers["etag"]) == (creation.json, creation.headers["etag"])


def test_a_key_for_one_edge_sees_the_secrets_of_that_edge(admin: Client) -> None:
    own_module, other = (on_a_holder(admin, OAUTH) for _ in range(2))
    for module in (own_module, other):
        admin.put(module, MODULE)
    edge = own_module.split("/")[3]
    writer = key(admin, ["edges:read", f"edges:write@{edge}"])
    assert [answer.text.count(SECRET) for answer in read(writer, own_module)] == [1] * 5
    assert [answer.text.count(SECRET) for answer in read(writer, other)] == [0, 0, 0, 0, 1]  # the last one lists both
    reader = key(admin, [f"edges:read@{edge}", f"edges:write@{other.split('/')[3]}"])
    assert [answer.text.count(SECRET) for answer in read(reader, own_module)] == [0] * 5
