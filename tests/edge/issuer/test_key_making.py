"""Keys of certificates: made and sealed in a process of their own, which shows only what is sealed."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from chalicelib.storage import vault
from edge.issuer import key_making
from edge.issuer.attempts import AttemptFailed
from edge.issuer.key_making import KeyWish
from tests.conftest import Served, client_of
from tests.transports import Client

NAMES = ("app.example.com", "*.app.example.com")


@pytest.mark.parametrize("key_type", ["ecdsa", "rsa"])
def test_a_key_is_sealed_for_its_certificate_and_signs_the_request(admin: Client, key_type: str) -> None:
    key_pair = key_making.make(KeyWish("acct_1", "cert_1", NAMES, key_type))  # type: ignore[arg-type]
    request = x509.load_der_x509_csr(key_pair.request)
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == NAMES
    assert request.is_signature_valid
    decrypted = vault.unseal(key_pair.key, vault.context("acct_1", "cert_1"), bytes)
    assert serialization.load_der_private_key(decrypted, None).public_key() == request.public_key()


def test_a_child_process_makes_a_key(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in served.cloud.items():
        monkeypatch.setenv(name, value)
    key_pair = key_making.make_in_child(KeyWish("acct_1", "cert_1", NAMES))
    context = vault.context("acct_1", "cert_1")
    kms = client_of(served.cloud, "kms")
    decrypted = kms.decrypt(CiphertextBlob=key_pair.key, EncryptionContext=context)["Plaintext"]
    private_key = serialization.load_der_private_key(decrypted, None)
    assert private_key.public_key() == x509.load_der_x509_csr(key_pair.request).public_key()


def test_a_child_process_without_a_store_fails_for_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(AttemptFailed) as error:
        key_making.make_in_child(KeyWish("acct_1", "cert_1", NAMES))
    assert error.value.failure.code == "internal"
    assert error.value.reason == "a private key could not be created: CalledProcessError"
