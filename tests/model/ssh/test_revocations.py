"""A malformed revocation never shortens a list."""

from typing import Any

from tests.records import put, read_record, with_scope
from tests.transports import Client


def test_a_list_of_revocations_is_whole_or_an_error(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}"
    for serial in ("7", "8"):
        admin.create(f"{path}/revocations", {"serial": serial})
    assert admin.get(f"{path}/krl").status == 200
    for record in with_scope(f"krl#{authority}"):
        name = "count" if record["id"] == "head" else "packed"
        forms: list[Any] = ["text", [], None, b"\0\0\0\7cut off"]
        for wrong in forms:
            put({**record, name: wrong})
            assert admin.get(f"{path}/krl").status == 500, (name, wrong)
        put(record)
    assert admin.get(f"{path}/krl").status == 200


def test_a_malformed_revocation_leaves_the_list_as_it_is(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    path = f"/ssh_certificate_authorities/{authority}"
    revocation = admin.create(f"{path}/revocations", {"serial": "7"})
    before = admin.get(f"{path}/krl").text
    record = read_record(revocation["id"])
    put({**record, "body": {**record["body"], "serial": 7}})
    assert admin.delete(f"{path}/revocations/{revocation['id']}").status == 204
    assert admin.get(f"{path}/krl").text == before
