"""What servers fetch of an SSH authority, at every door: without a token, raw or as text, and once."""

import base64
from dataclasses import replace

from tests.contract.answers import NOT_FOUND, Bodiless, check_headers
from tests.samples import public_key
from tests.transports import Client

AUTHORITIES = "/ssh_certificate_authorities"
RAW, TEXT = "application/octet-stream", "text/plain; charset=utf-8"


def test_a_deleted_certificate_is_in_the_list_that_everyone_can_fetch(client: Client) -> None:
    nobody, authority = replace(client, token="", headers={}), client.create(AUTHORITIES, {})
    path = f"{AUTHORITIES}/{authority['id']}"
    before = nobody.send("GET", f"{path}/krl", Accept=RAW)
    assert (before.status, before.content[:8]) == (200, b"SSHKRL\n\0")
    check_headers(before, {"content-type": RAW, "cache-control": "no-cache"})
    Bodiless(304).check(nobody.send("GET", f"{path}/krl", Accept=RAW, If_None_Match=before.headers["etag"]))
    asked = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    certificate = client.create("/ssh_user_certificates", asked)
    Bodiless(204).check(client.delete(f"/ssh_user_certificates/{certificate['id']}"))
    after = nobody.send("GET", f"{path}/krl", Accept=RAW, If_None_Match=before.headers["etag"])
    assert after.status == 200
    assert len(after.content) > len(before.content)
    text = nobody.send("GET", f"{path}/krl")
    assert (text.status, base64.b64decode(text.text)) == (200, after.content)
    check_headers(text, {"content-type": TEXT})


def test_the_public_key_is_a_line_for_everyone(client: Client) -> None:
    nobody, authority = replace(client, token="", headers={}), client.create(AUTHORITIES, {})
    answer = nobody.get(f"{AUTHORITIES}/{authority['id']}/public_key")
    assert (answer.status, answer.text) == (200, f"{authority['public_key']}\n")
    check_headers(answer, {"content-type": TEXT})
    NOT_FOUND.check(nobody.get(f"{AUTHORITIES}/sshca_{'0' * 27}/public_key"))
