"""TLS certificates that are refused: the answer says of each file what is wrong with it and what to send instead."""

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chalicelib.crypto import pem
from tests import openssl
from tests.needs import need
from tests.openssl import Issued
from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/tls_certificates"
ENCRYPTED = "must not be encrypted: send what 'openssl pkey -in <file>' prints"
KEY_HERE = "must be only certificates, not a private key: check that the two files are not swapped or merged"
CERTIFICATE_HERE = "must be only the private key, not certificates: check that the two files are not swapped or merged"
NO_CERTIFICATE = "must be PEM (text with BEGIN and END lines) with a certificate"
NOT_ONE_KEY = "must be PEM (text with BEGIN and END lines) with exactly one private key"
CUT_OFF = "must be complete PEM: each BEGIN line needs its END line, and each END line its BEGIN line"
NOT_BASE64 = (
    "must be intact PEM: the text between a BEGIN and an END line is not base64; "
    "send the file unchanged, with its line breaks"
)
NO_KEY = "must be an intact private key: its content cannot be parsed"
KINDS = "must use an rsa key, an ecdsa key on the curve P-256, P-384 or P-521, or an ed25519 key"
OTHER_KEY = "must be the private key of the first certificate in certificate_pem"
MALFORMED = "must contain certificates as they were issued; certificate 1 is damaged or does not conform to RFC 5280: "
BROKEN = "must be a chain, leaf first, each certificate signed by the next: certificate "
RICH = {"extensions": ("subjectAltName=DNS:a.example,IP:192.0.2.1", "keyUsage=digitalSignature")}
OTHER_NAME = "(Issuer certificate subject does not match certificate issuer)"


def dsa() -> str:
    return openssl.secret(openssl.run("dsaparam", "-genkey", "-noout", "1024"))


@pytest.fixture(scope="session")
def openssh_key(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("openssh") / "key"
    need("ssh")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return openssl.secret(Path(file).read_text())


def refused_key(admin: Client, key: object, sentence: str) -> None:
    assert_invalid(admin.post(PATH, openssl.issue().upload | {"private_key_pem": key}), {"private_key_pem": sentence})


def refused_chain(admin: Client, chain: object, sentence: str) -> None:
    assert_invalid(admin.post(PATH, openssl.issue().upload | {"certificate_pem": chain}), {"certificate_pem": sentence})


UNUSABLE_KEYS: dict[str, tuple[Callable[[str], str], str]] = {
    "encrypted PKCS#8": (lambda key: openssl.run("pkey", "-aes256", "-passout", "pass:x", stdin=key), ENCRYPTED),
    "encrypted SEC1": (lambda key: openssl.run("ec", "-aes128", "-passout", "pass:x", stdin=key), ENCRYPTED),
    "a certificate": (lambda key: openssl.issue().certificate, CERTIFICATE_HERE),
    "both in one file": (lambda key: key + openssl.issue().certificate, CERTIFICATE_HERE),
    "the public key": (
        lambda key: openssl.run("pkey", "-pubout", stdin=key),
        "must be the private key, not the public one",
    ),
    "a request": (
        lambda key: openssl.run("req", "-new", "-config", "config", "-subj", "/CN=x", "-key", "k", files={"k": key}),
        "must be only a private key",
    ),
    "two keys": (lambda key: key * 2, NOT_ONE_KEY),
    "only the parameters of a curve": (lambda key: openssl.run("ecparam", "-name", "prime256v1"), NOT_ONE_KEY),
    "DSA": (lambda key: dsa(), KINDS),
    "Ed448": (lambda key: openssl.key("ed448"), KINDS),
    "another curve": (lambda key: openssl.key("secp256k1"), KINDS),
    "a weak RSA key": (lambda key: openssl.key("rsa-512"), "must use an RSA key of 2048 to 4096 bits, not 512"),
    "words": (lambda key: "my private key", NOT_ONE_KEY),
    "no BEGIN and END lines": (lambda key: "".join(key.splitlines()[1:-1]), NOT_ONE_KEY),
    "another END line": (lambda key: key.replace("END PRIVATE", "END RSA PRIVATE"), CUT_OFF),
    "a letter too few": (lambda key: key.replace("M", "", 1), NOT_BASE64),
    "other content": (lambda key: pem.encode("PRIVATE KEY", b"not a key"), NO_KEY),
    "no content": (lambda key: pem.encode("PRIVATE KEY", b""), NO_KEY),
    "encrypted under a wrong label": (
        lambda key: openssl.run("pkey", "-aes256", "-passout", "pass:x", stdin=key).replace("ENCRYPTED ", ""),
        NO_KEY,
    ),
    "another key": (lambda key: openssl.key("p256", "another"), OTHER_KEY),
    "another key of another kind": (lambda key: openssl.key("ed25519"), OTHER_KEY),
}


@pytest.mark.filterwarnings("ignore:Diffie-Hellman")
@pytest.mark.parametrize(("make", "sentence"), UNUSABLE_KEYS.values(), ids=UNUSABLE_KEYS)
def test_a_key_that_is_not_taken(admin: Client, make: Callable[[str], str], sentence: str) -> None:
    refused_key(admin, make(openssl.issue().key), sentence)


def test_a_key_in_openssh_format_is_not_taken(admin: Client, openssh_key: str) -> None:
    refused_key(admin, openssh_key, "must not be in OpenSSH's format: send a PKCS#8, PKCS#1 or SEC1 key")


UNUSABLE_CHAINS: dict[str, tuple[Callable[[str], str], str]] = {
    "a private key": (lambda leaf: openssl.issue().key, KEY_HERE),
    "an encrypted key": (
        lambda leaf: openssl.run("pkey", "-aes256", "-passout", "pass:x", stdin=openssl.issue().key),
        KEY_HERE,
    ),
    "both in one file": (lambda leaf: leaf + openssl.issue().key, KEY_HERE),
    "a trusted certificate": (
        lambda leaf: openssl.run("x509", "-trustout", stdin=leaf),
        "must be only certificates, not a 'TRUSTED CERTIFICATE'",
    ),
    "PKCS#7": (
        lambda leaf: openssl.run("crl2pkcs7", "-nocrl", "-certfile", "c", files={"c": leaf}),
        "must be only certificates, not a 'PKCS7'",
    ),
    "nothing": (lambda leaf: "", NO_CERTIFICATE),
    "words": (lambda leaf: "certificate", NO_CERTIFICATE),
    "letters of another alphabet": (lambda leaf: leaf.replace("M", "М", 1), NOT_BASE64),
    "no END line": (lambda leaf: leaf.rpartition("-----END")[0], CUT_OFF),
    "a second one that is cut off": (lambda leaf: leaf + leaf[: len(leaf) // 2], CUT_OFF),
    "a second one of which nothing but a word is left": (lambda leaf: leaf + "-----BEGIN CERT", CUT_OFF),
    "a BEGIN line too many": (lambda leaf: leaf.partition("\n")[0] + "\n" + leaf, CUT_OFF),
    "line breaks spelled out": (lambda leaf: leaf.replace("\n", r"\n"), NOT_BASE64),
    "more than the largest": (
        lambda leaf: leaf * (64 * 1024 // len(leaf) + 1),
        "must be at most 65536 bytes of certificates: send only the chain of the leaf",
    ),
    "DSA": (lambda leaf: sign_self(dsa()), KINDS),
    "another curve": (lambda leaf: sign_self(openssl.key("secp256k1")), KINDS),
    "RSA for PSS only": (lambda leaf: sign_self(openssl.key("rsa-pss")), KINDS),
    "a weak RSA key": (
        lambda leaf: sign_self(openssl.key("rsa-512")),
        "must use an RSA key of 2048 to 4096 bits, not 512",
    ),
}


def sign_self(key: str) -> str:
    return openssl.run("req", "-x509", "-config", "config", "-subj", "/CN=x", "-key", "key", files={"key": key})


@pytest.mark.parametrize(("make", "sentence"), UNUSABLE_CHAINS.values(), ids=UNUSABLE_CHAINS)
def test_a_chain_that_is_not_taken(admin: Client, make: Callable[[str], str], sentence: str) -> None:
    refused_chain(admin, make(openssl.issue().certificate), sentence)


def swap_middle(chain: list[str]) -> list[str]:
    return [chain[0], chain[2], chain[1], chain[3]]


@pytest.mark.parametrize(
    ("order", "position"),
    [
        (lambda chain: chain[::-1], 1),
        (lambda chain: [chain[0], *chain[2:]], 1),
        (lambda chain: [*chain[:2], chain[3]], 2),
        (swap_middle, 1),
        (lambda chain: [*chain, chain[0]], 4),
        (lambda chain: [chain[0], *chain], 1),
    ],
    ids=["root first", "first intermediate missing", "second one missing", "swapped", "one too many", "leaf twice"],
)
def test_a_broken_chain_names_the_break(admin: Client, order: Callable[[list[str]], list[str]], position: int) -> None:
    chain = order(openssl.certificates(openssl.chain("p256", "p256", "p256", "p256").certificate))
    sentence = f"{BROKEN}{position} is not signed by certificate {position + 1} {OTHER_NAME}"
    refused_chain(admin, "".join(chain), sentence)


def test_an_issuer_of_the_same_name_but_another_key_is_a_break(admin: Client) -> None:
    root, other = openssl.issue("/CN=root"), self_signed_as("root")
    leaf = openssl.issue("/CN=leaf", issuer=root)
    sentence = f"{BROKEN}1 is not signed by certificate 2 (another key signed it)"
    refused_chain(admin, leaf.certificate + other, sentence)


def self_signed_as(name: str) -> str:
    key = openssl.key("p256", "another")
    return openssl.run("req", "-x509", "-config", "config", "-subj", f"/CN={name}", "-key", "key", files={"key": key})


def test_a_chain_signed_as_nobody_trusts_any_more_is_a_break(admin: Client) -> None:
    root = openssl.issue("/CN=root", "rsa-2048")
    leaf = openssl.issue("/CN=leaf", issuer=root, options=("-sha1",))
    sentence = f"{BROKEN}1 is not signed by certificate 2 (Unsupported signature algorithm)"
    refused_chain(admin, leaf.certificate + root.certificate, sentence)


def patch_certificate(issued: Issued, old: bytes, new: bytes) -> str:
    """Return the certificate with some bytes changed, and so with a wrong signature, which of a leaf nobody checks."""
    content = base64.b64decode("".join(issued.certificate.splitlines()[1:-1]))
    assert old in content
    return pem.encode("CERTIFICATE", content.replace(old, new))


ODD: dict[str, tuple[Callable[[], str], str]] = {
    "a version there is not": (
        lambda: patch_certificate(openssl.issue(**RICH), b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),
        "7 is not a valid X509 version",
    ),
    "a name that is bits": (
        lambda: patch_certificate(openssl.issue("/CN=1"), b"\x0c\x011", b"\x03\x01\0"),
        "a name in the certificate is not text",
    ),
    "a negative serial number": (
        lambda: openssl.issue(options=("-set_serial", "-5")).certificate,
        "the serial number of the certificate must be positive",
    ),
    "a TLS feature that there is not": (
        lambda: openssl.issue(extensions=("tlsfeature=1234",)).certificate,
        "an extension contains a number that has no defined meaning",
    ),
    "an extension twice": (
        lambda: patch_certificate(
            openssl.issue(extensions=("keyUsage=digitalSignature", "extendedKeyUsage=serverAuth")),
            b"\x55\x1d\x25",
            b"\x55\x1d\x0f",
        ),
        "Duplicate 2.5.29.15 extension found",
    ),
    "a kind of name that nobody uses": (
        lambda: patch_certificate(
            openssl.issue(extensions=("subjectAltName=DNS:a.b",)), b"\x82\x03a.b", b"\xa5\x03\x0c\x01x"
        ),
        "x400Address/EDIPartyName are not supported types",
    ),
    "uses that exclude each other": (
        lambda: openssl.issue(extensions=("keyUsage=encipherOnly",)).certificate,
        "encipher_only and decipher_only can only be true when key_agreement is true",
    ),
}


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@pytest.mark.parametrize(("make", "reason"), ODD.values(), ids=ODD)
def test_a_certificate_that_breaks_the_rules_of_certificates(
    admin: Client, make: Callable[[], str], reason: str
) -> None:
    refused_chain(admin, make(), MALFORMED + reason)


@pytest.mark.parametrize("value", [None, 1, True, ["x"], {"pem": "x"}])
def test_both_fields_are_strings(admin: Client, value: object) -> None:
    sentence = "must be a string in PEM format"
    answer = admin.post(PATH, {"certificate_pem": value, "private_key_pem": value})
    assert_invalid(answer, {"certificate_pem": sentence, "private_key_pem": sentence})


def test_faults_of_both_files_and_of_the_other_fields_are_named_at_once(admin: Client) -> None:
    issued = openssl.issue()
    upload = {"certificate_pem": issued.certificate[:-1], "private_key_pem": issued.key[:-9], "description": "x" * 256}
    answer = admin.post(PATH, upload | {"certificate_pem": issued.certificate[:-9]})
    too_long = "must be at most 255 bytes of UTF-8"
    assert_invalid(answer, {"description": too_long, "certificate_pem": CUT_OFF, "private_key_pem": CUT_OFF})


@pytest.mark.parametrize("features", ["status_request", "status_request,17"])
def test_a_certificate_that_requires_ocsp_stapling_is_refused(admin: Client, features: str) -> None:
    issued = openssl.issue(extensions=(f"tlsfeature={features}",))
    error = (
        "must not require OCSP stapling, which the live edge does not support: "
        "certificate 1 has the extension TLS Feature (1.3.6.1.5.5.7.1.24, must-staple)"
    )
    assert_invalid(admin.post(PATH, issued.upload), {"certificate_pem": error})


def test_a_certificate_with_another_tls_feature_is_accepted(admin: Client) -> None:
    issued = openssl.issue(extensions=("tlsfeature=17",))
    assert admin.post(PATH, issued.upload).status == 201
