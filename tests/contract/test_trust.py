"""What servers fetch of an SSH authority, at every door: without a token, raw or as text, and once."""

import base64
from dataclasses import replace

import pytest

from tests.contract.answers import NOT_FOUND, Bodiless, check_headers
from tests.samples import public_key
from tests.transports import Client, plain

AUTHORITIES = "/ssh_certificate_authorities"
RAW, TEXT = "application/octet-stream", "text/plain; charset=utf-8"


def test_a_deleted_certificate_is_in_the_list_that_everyone_can_fetch(client: Client) -> None:
    nobody, authority = replace(client, token="", headers={}), client.create(AUTHORITIES, {})
    path = f"{AUTHORITIES}/{authority['id']}"
    before = nobody.send("GET", f"{path}/krl", Accept=RAW)
    assert (before.status, before.content[:8]) == (200, b"SSHKRL\n\0")
    check_headers(before, {"content-type": RAW, "cache-control": "no-cache"})
    Bodiless(304).check(nobody.send("GET", f"{path}/krl", Accept=RAW, If_None_Match=before.headers["etag"]))
    body = {"ssh_certificate_authority_id": authority["id"], "public_key": public_key()}
    certificate = client.create("/ssh_user_certificates", body)
    Bodiless(204).check(client.delete(f"/ssh_user_certificates/{certificate['id']}"))
    after = nobody.send("GET", f"{path}/krl", Accept=RAW, If_None_Match=before.headers["etag"])
    assert after.status == 200
    assert len(after.content) > len(before.content)
    text = nobody.send("GET", f"{path}/krl")
    assert (text.status, base64.b64decode(text.text)) == (200, after.content)
    check_headers(text, {"content-type": TEXT})


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_list_is_the_same_bytes_and_text_however_it_is_sent(client: Client, encoding: str) -> None:
    nobody, authority = replace(client, token="", headers={}), client.create(AUTHORITIES, {})
    path = f"{AUTHORITIES}/{authority['id']}"
    for _ in range(40):  # until the list is one that a gateway compresses
        client.create(f"{path}/revocations", {"public_key": public_key()})
    raw, text = (nobody.send("GET", f"{path}/krl", Accept=kind, Accept_Encoding=encoding) for kind in (RAW, TEXT))
    content = plain(raw.headers, raw.content)
    assert (raw.status, content[:8]) == (200, b"SSHKRL\n\0")
    assert base64.b64decode(text.text) == content
    assert len(content) > 1024


def test_the_public_key_is_a_line_for_everyone(client: Client) -> None:
    nobody, authority = replace(client, token="", headers={}), client.create(AUTHORITIES, {})
    answer = nobody.get(f"{AUTHORITIES}/{authority['id']}/public_key")
    assert (answer.status, answer.text) == (200, f"{authority['public_key']}\n")
    check_headers(answer, {"content-type": TEXT})
    NOT_FOUND.check(nobody.get(f"{AUTHORITIES}/sshca_{'0' * 27}/public_key"))
