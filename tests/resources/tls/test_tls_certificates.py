"""TLS certificates that are accepted (SPEC 2.7, 4.6): openssl makes them, and judges every field we show of them."""

import re
from typing import Any

import pytest

from chalicelib.resources.tls.tls_certificates import TLSCreate
from chalicelib.schema import models
from chalicelib.storage import vault
from chalicelib.storage.records import table
from tests import openssl
from tests.openssl import Issued
from tests.transports import Client, key_in

PATH = "/tls_certificates"
NAMES = ",".join(
    (
        "DNS:a.example",
        "DNS:*.b.example",
        "DNS:xn--bcher-kva.example",
        "IP:192.0.2.1",
        "IP:2001:db8::1",
        "IP:::ffff:192.0.2.1",
        "email:someone@a.example",
        "URI:https://a.example/",
        "otherName:1.2.3.4;UTF8:another",
        "RID:1.2.3.4",
    )
)
SUBJECT = "/C=CH/ST=Zürich/L=Winterthur/O=Müller & Söhne, Ltd/OU=運用/CN=a.example"
EVERY_USE = (
    "keyUsage=critical,digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyAgreement,keyCertSign,"
    "cRLSign,encipherOnly,decipherOnly",
    "extendedKeyUsage=serverAuth,clientAuth,codeSigning,emailProtection,timeStamping,OCSPSigning,anyExtendedKeyUsage,"
    "1.3.6.1.4.1.311.10.3.3,1.2.3.4.5",
)
LEAVES: dict[str, dict[str, Any]] = {
    "everything": {"subject": SUBJECT, "extensions": (f"subjectAltName={NAMES}", *EVERY_USE)},
    "nothing": {"subject": "/"},
    "names but no common name": {"subject": "/O=Only", "extensions": ("subjectAltName=DNS:a.example",)},
    "names of no kind we show": {"extensions": ("subjectAltName=email:someone@a.example",)},
    "two values of one part": {"subject": "/O=O1/OU=first/OU=second/O=O2/CN=c1/CN=c2"},
    "two parts in one": {"subject": "/C=CH/OU=x+CN=y"},
    "a common name of 64 characters": {"subject": f"/CN={'x' * 64}"},
    "strings of before Unicode": {"subject": "/O=Ωmega/L=Genève/CN=old.example", "options": ("-section", "old")},
    "an unknown critical extension": {"extensions": ("1.2.3.4.5=critical,ASN1:UTF8String:unknown",)},
    "the usual uses": {"extensions": ("keyUsage=digitalSignature,keyEncipherment", "extendedKeyUsage=serverAuth")},
    "decipher only": {"extensions": ("keyUsage=keyAgreement,decipherOnly",)},
    "no serial number": {"options": ("-set_serial", "0")},
    "a serial number of one byte": {"options": ("-set_serial", "255")},
    "a serial number of five digits": {"options": ("-set_serial", "0x12345")},
    "a serial number with its highest bit set": {"options": ("-set_serial", f"0x{'f' * 40}")},
    "a signature of before SHA-2": {"options": ("-sha1",), "kind": "rsa-2048"},
    "a signature with PSS": {"options": ("-sigopt", "rsa_padding_mode:pss"), "kind": "rsa-2048"},
}


def response(body: Any, issued: Issued, client: Client) -> dict[str, Any]:
    """Return the whole resource that an upload must have become."""
    return {
        "id": body["id"],
        "uri": f"http://localhost{PATH}/{body['id']}",
        "created_at": body["created_at"],
        "created_by": key_in(client.token),
        "description": "",
        "metadata": "",
        "certificate_pem": issued.certificate,
        "issued_at": None,
        **openssl.facts(issued.certificate),
    }


def sealed_key(client: Client, id: str) -> str:
    """Return the private key that the vault holds of a certificate, as openssl writes it."""
    item = table.read(f"{client.account}#{PATH}", id)
    assert item
    key = vault.unseal(item.sealed["private_key"], vault.context(client.account, id), bytes)
    return openssl.run("pkey", "-inform", "DER", stdin=key)


@pytest.mark.filterwarnings("ignore:Parsed a serial number", "ignore:Attribute's length")
@pytest.mark.parametrize("leaf", LEAVES.values(), ids=LEAVES)
def test_every_field_is_what_openssl_reads_in_the_leaf(admin: Client, leaf: dict[str, Any]) -> None:
    issued = openssl.issue(**leaf)
    body = admin.create(PATH, issued.upload)
    assert body == response(body, issued, admin)
    assert admin.get(f"{PATH}/{body['id']}").json == body
    assert admin.get(PATH).json["tls_certificates"] == [body]


@pytest.mark.parametrize("kind", ["rsa-2048", "rsa-4096", "p256", "p384", "p521", "ed25519"])
def test_a_key_of_every_kind_is_kept_by_the_vault(admin: Client, kind: str) -> None:
    issued = openssl.issue("/CN=a.example", kind)
    body = admin.create(PATH, issued.upload)
    assert body == response(body, issued, admin)
    assert sealed_key(admin, body["id"]) == issued.key


@pytest.mark.parametrize("kind", ["rsa-2048", "p384"])
def test_a_key_may_come_in_its_traditional_form(admin: Client, kind: str) -> None:
    issued = openssl.issue("/CN=a.example", kind)
    traditional = openssl.secret(openssl.run("pkey", "-traditional", stdin=issued.key))
    assert traditional.startswith(f"-----BEGIN {'RSA' if 'rsa' in kind else 'EC'} PRIVATE KEY-----")
    body = admin.create(PATH, issued.upload | {"private_key_pem": traditional})
    assert sealed_key(admin, body["id"]) == issued.key


def test_a_key_may_come_behind_the_parameters_of_its_curve(admin: Client) -> None:
    key = openssl.secret(openssl.run("ecparam", "-name", "prime256v1", "-genkey"))
    assert key.startswith("-----BEGIN EC PARAMETERS-----")
    certificate = openssl.run("req", "-x509", "-config", "config", "-subj", "/CN=x", "-key", "key", files={"key": key})
    body = admin.create(PATH, {"certificate_pem": certificate, "private_key_pem": key})
    assert sealed_key(admin, body["id"]) == openssl.run("pkey", stdin=key)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("20200101000000Z", "20200201000000Z"),  # expired
        ("20480101000000Z", "20490201000000Z"),  # not valid yet
        ("19491231235959Z", "20500101000000Z"),  # in the certificate's other form of a time
        ("10000101000000Z", "99991231235959Z"),  # no known end (RFC 5280, 4.1.2.5)
    ],
)
def test_a_certificate_is_taken_whenever_it_is_valid(admin: Client, start: str, end: str) -> None:
    issued = openssl.issue_for(start, end)
    body = admin.create(PATH, issued.upload)
    assert body == response(body, issued, admin)
    dates = [re.sub(r"\D", "", body[field]) + "Z" for field in ("not_before", "not_after")]
    assert dates == [start, end]


@pytest.mark.parametrize(
    "kinds",
    [
        ("p256", "p256"),
        ("rsa-2048", "p384", "p521", "rsa-2048"),
        ("ed25519", "rsa-2048", "ed25519", "ed448"),
        ("p256",) * 12,
    ],
    ids=lambda kinds: "-".join(kinds[:4]),
)
def test_a_chain_of_any_length_is_kept_and_its_leaf_is_read(admin: Client, kinds: tuple[str, ...]) -> None:
    chain = openssl.chain(*kinds)
    assert len(openssl.certificates(chain.certificate)) == len(kinds)
    body = admin.create(PATH, chain.upload)
    assert body == response(body, chain, admin)
    assert body["subject_common_name"] == f"number 0 of {len(kinds)}"
    assert body["issuer_common_name"] == f"number 1 of {len(kinds)}"


def test_a_chain_need_not_reach_its_root(admin: Client) -> None:
    chain = openssl.chain("p256", "p256", "p256", "p256")
    upload = {**chain.upload, "certificate_pem": "".join(openssl.certificates(chain.certificate)[:3])}
    assert admin.create(PATH, upload)["certificate_pem"] == upload["certificate_pem"]


def test_a_chain_signed_with_pss_holds(admin: Client) -> None:
    options = ("-sigopt", "rsa_padding_mode:pss")
    root = openssl.issue("/CN=root", "rsa-2048", options=options)
    leaf = openssl.issue("/CN=leaf", "p256", issuer=root, options=options)
    body = admin.create(PATH, leaf.upload | {"certificate_pem": leaf.certificate + root.certificate})
    assert body["issuer_common_name"] == "root"


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda pem: pem.replace("\n", "\r\n"),
        lambda pem: pem.rstrip("\n"),
        lambda pem: "\n\n \t" + pem.replace("\n", "\n\n    "),
        lambda pem: "".join(
            openssl.run("x509", "-text", stdin=certificate) for certificate in openssl.certificates(pem)
        ),
        lambda pem: f"Bag Attributes\n    friendlyName: Zürich 運用\n{pem}\nand some words after it",
        lambda pem: pem.replace(" CERTIFICATE", " X509 CERTIFICATE"),
        lambda pem: re.sub("\n([^-])", r"\1", pem),
    ],
    ids=["crlf", "no final newline", "blank and indented lines", "-text", "words around", "old label", "one line"],
)
def test_pem_however_it_is_written_is_shown_in_its_one_form(admin: Client, rewrite: Any) -> None:
    chain = openssl.chain("p256", "p256")
    pem, key = rewrite(chain.certificate), chain.key.replace("\n", "\r\n")
    assert admin.create(PATH, {"certificate_pem": pem, "private_key_pem": key})["certificate_pem"] == chain.certificate


def test_a_certificate_may_be_uploaded_twice(admin: Client) -> None:
    first, second = (admin.create(PATH, openssl.issue().upload) for _ in range(2))
    assert first | {name: second[name] for name in ("id", "uri", "created_at")} == second


def test_the_private_key_is_in_no_response(admin: Client) -> None:
    upload = openssl.issue().upload
    creation = admin.post(PATH, {**upload, "description": "d"})
    address = f"{PATH}/{creation.json['id']}"
    answers = [
        creation,
        admin.get(address),
        admin.get(PATH),
        admin.patch(address, {"description": "e"}),
        admin.delete(address),
    ]
    assert [answer.status for answer in answers] == [201, 200, 200, 200, 204]
    key = upload["private_key_pem"].splitlines()[1:-1]
    assert not [line for line in key for answer in answers if line in answer.text or "private_key_pem" in answer.text]


def test_the_private_key_is_not_in_what_a_body_says_of_itself() -> None:
    upload = openssl.issue().upload
    request, _ = models.check(TLSCreate, upload)
    assert request is not None
    text = repr(request) + str(request)
    assert not [line for line in upload["private_key_pem"].splitlines() if line in text]
