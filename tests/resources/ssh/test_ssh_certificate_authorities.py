"""SSH certificate authorities (SPEC 2.5, 4.4) by their own rules; what all kinds share is tested once for all."""

import subprocess
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.serialization import load_der_private_key

from chalicelib import ids
from chalicelib.crypto import keys
from chalicelib.http.auth import Caller
from chalicelib.resources.ssh import ssh_certificate_authorities
from chalicelib.schema import models
from chalicelib.storage.client import aws
from tests.needs import need
from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/ssh_certificate_authorities"
ONLY_RSA = "must be absent unless private_key_type is rsa"
ONLY_ECDSA = "must be absent unless private_key_type is ecdsa"


def describe_key(public_key: str) -> tuple[int, str]:
    """Return the bits and the type of a public key, as ssh-keygen says."""
    need("ssh")
    output = subprocess.run(
        ["ssh-keygen", "-l", "-f", "-"], input=public_key, check=True, capture_output=True, text=True
    ).stdout.split()
    return int(output[0]), output[-1].strip("()")


def read_sealed(client: Client, id: str) -> tuple[dict[str, Any], bytes]:
    """Return the record of an authority, and the ciphertext of its private key."""
    key = {"scope": {"S": f"{client.account}#{PATH}"}, "id": {"S": id}}
    item = aws.client("dynamodb").get_item(TableName="tunnel-edge", Key=key)["Item"]
    return item, item["sealed"]["M"]["private_key"]["B"]


@pytest.mark.parametrize(
    ("body", "key_fields", "bits", "kind"),
    [
        ({}, {"key_type": "ed25519"}, 256, "ED25519"),
        ({"private_key_type": "ecdsa"}, {"key_type": "ecdsa", "elliptic_curve": "nistp256"}, 256, "ECDSA"),
        *(
            (
                {"private_key_type": "ecdsa", "elliptic_curve": f"nistp{bits}"},
                {"key_type": "ecdsa", "elliptic_curve": f"nistp{bits}"},
                bits,
                "ECDSA",
            )
            for bits in (384, 521)
        ),
        ({"private_key_type": "rsa", "key_size": 2048}, {"key_type": "rsa", "key_size": 2048}, 2048, "RSA"),
        ({"private_key_type": "rsa"}, {"key_type": "rsa", "key_size": 4096}, 4096, "RSA"),
    ],
)
def test_an_authority_has_a_key_of_the_type_that_was_asked_for_and_shows_it(
    admin: Client, body: dict[str, Any], key_fields: dict[str, Any], bits: int, kind: str
) -> None:
    authority = admin.create(PATH, body)
    assert {
        name: authority[name] for name in ("key_type", "elliptic_curve", "key_size") if name in authority
    } == key_fields
    assert describe_key(authority["public_key"]) == (bits, kind)
    assert admin.get(f"{PATH}/{authority['id']}").json == authority
    assert admin.patch(f"{PATH}/{authority['id']}", {"description": "new"}).json == {**authority, "description": "new"}
    assert admin.get(PATH).json["ssh_certificate_authorities"][0] == {**authority, "description": "new"}


def test_a_public_key_is_one_line_without_a_comment(admin: Client) -> None:
    public_key = admin.create(PATH, {})["public_key"]
    assert public_key.split(" ") == ["ssh-ed25519", public_key.split(" ")[1]]
    assert public_key == public_key.strip()


@pytest.mark.parametrize("unset_value", [None, "", 0])
def test_some_clients_send_every_field_they_know(admin: Client, unset_value: object) -> None:
    unset = {"elliptic_curve": unset_value, "key_size": unset_value}
    assert admin.create(PATH, {**unset, "private_key_type": unset_value})["key_type"] == "ed25519"
    for key_type in ("ed25519", "ecdsa"):
        assert admin.create(PATH, {**unset, "private_key_type": key_type})["key_type"] == key_type
    rsa = admin.create(PATH, {"private_key_type": "rsa", "key_size": 2048, "elliptic_curve": unset_value})
    assert rsa["key_type"] == "rsa"


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"elliptic_curve": "nistp256"}, {"elliptic_curve": ONLY_ECDSA}),
        ({"key_size": 2048}, {"key_size": ONLY_RSA}),
        ({"private_key_type": "ed25519", "key_size": 4096}, {"key_size": ONLY_RSA}),
        ({"private_key_type": "ecdsa", "key_size": 2048}, {"key_size": ONLY_RSA}),
        ({"private_key_type": "rsa", "elliptic_curve": "nistp256"}, {"elliptic_curve": ONLY_ECDSA}),
        ({"elliptic_curve": "nistp256", "key_size": 2048}, {"elliptic_curve": ONLY_ECDSA, "key_size": ONLY_RSA}),
    ],
)
def test_curve_and_size_go_with_their_type_only(admin: Client, body: Any, errors: dict[str, str]) -> None:
    assert_invalid(admin.post(PATH, body), errors)
    assert admin.get(PATH).json["ssh_certificate_authorities"] == []


def test_types_curves_and_sizes_are_those_of_the_specification(admin: Client) -> None:
    types = "must be one of 'rsa', 'ecdsa' or 'ed25519'"
    value: Any
    for value in ("dsa", "RSA", "ed448", 1, True, False, [], {}):
        assert_invalid(admin.post(PATH, {"private_key_type": value}), {"private_key_type": types})
    curves = "must be one of 'nistp256', 'nistp384' or 'nistp521'"
    for value in ("P-256", "secp256k1", "nistp224", 256, True, False, []):
        request = {"private_key_type": "ecdsa", "elliptic_curve": value}
        assert_invalid(admin.post(PATH, request), {"elliptic_curve": curves})
    for size in (1024, 2047, 3072, 8192, -2048, "2048", "4096", True, False, [2048]):
        request = {"private_key_type": "rsa", "key_size": size}
        assert_invalid(admin.post(PATH, request), {"key_size": "must be one of 2048 or 4096"})


@pytest.mark.parametrize("private_key_type", ["ed25519", "ecdsa", "rsa"])
def test_the_private_key_is_stored_as_a_ciphertext_for_this_account_and_resource(
    admin: Client, private_key_type: str
) -> None:
    authority = admin.create(PATH, {"private_key_type": private_key_type})
    record, ciphertext = read_sealed(admin, authority["id"])
    context = {"account": admin.account, "resource": authority["id"]}
    der = aws.client("kms").decrypt(CiphertextBlob=ciphertext, EncryptionContext=context)["Plaintext"]
    private_key = load_der_private_key(der, password=None)
    assert keys.authorized_key(private_key.public_key()) == authority["public_key"]  # type: ignore[arg-type]
    assert der not in ciphertext
    assert record.keys() == {"scope", "id", "body", "claims", "sealed", "revision", "schema"}
    assert "private_key" not in record["body"]["M"]
    for other in ({}, {"account": admin.account}, {**context, "resource": ids.new("sshca")}):
        with pytest.raises(ClientError, match="InvalidCiphertext"):
            aws.client("kms").decrypt(CiphertextBlob=ciphertext, EncryptionContext=other)


def test_the_private_key_is_in_no_representation_of_what_is_made(admin: Client) -> None:
    caller, id = Caller(admin.account, admin.user, admin=True), ids.new("sshca")
    request, _ = models.check(ssh_certificate_authorities.SSHAuthorityCreate, {})
    assert request
    new = ssh_certificate_authorities.make(caller, id, request)
    item, _ = ssh_certificate_authorities.RESOURCE.new(caller, request, scope=caller.scope(PATH))
    der = new.sealed["private_key"]
    for text in (repr(new), repr(item), str(new), str(item)):
        assert repr(der)[2:-1] not in text
        assert repr(item.sealed["private_key"])[2:-1] not in text
        assert "private_key" not in text


def test_deleting_an_authority_leaves_its_certificates(admin: Client) -> None:
    authority = admin.create(PATH, {})
    request = {"ssh_certificate_authority_id": authority["id"], "public_key": authority["public_key"]}
    certificate = admin.create("/ssh_user_certificates", request)
    assert admin.delete(f"{PATH}/{authority['id']}").status == 204
    assert admin.get(f"/ssh_user_certificates/{certificate['id']}").json == certificate
    assert admin.post("/ssh_user_certificates", request).json["error_code"] == "unknown_reference"
