"""A credential with a malformed ACL admits no client."""

from typing import Any

from chalicelib.model.ssh import credentials
from tests.records import put, read_record, with_scope
from tests.samples import public_key
from tests.transports import Client


def test_a_malformed_acl_lets_nobody_in(admin: Client) -> None:
    credential = admin.create("/ssh_credentials", {"public_key": public_key(), "acl": ["bind:a.example.com"]})
    (claim,) = [record for record in with_scope("public_key#") if record["body"]["id"] == credential["id"]]
    fingerprint = claim["scope"].partition("#")[2]
    assert credentials.find_by_fingerprint(fingerprint)
    forms: list[Any] = [{}, "", None, "bind:a.example.com", {"a": 1}, [1]]
    for wrong in forms:
        put({**claim, "body": {**claim["body"], "acl": wrong}})
        assert credentials.find_by_fingerprint(fingerprint) is None, wrong
        record = read_record(credential["id"])
        put({**record, "body": {**record["body"], "acl": wrong}})
        assert credentials.read(admin.account, credential["id"]) is None, wrong
