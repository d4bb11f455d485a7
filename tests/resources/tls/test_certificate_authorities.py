"""Certificate authorities by their own rules; openssl makes them, and says what stands in them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import openssl
from tests.openssl import CA, Issued
from tests.refusals import assert_invalid
from tests.transports import Client

PATH = "/certificate_authorities"
READ = ("subject_common_name", "not_before", "not_after", "key_usages", "extended_key_usages")
NONE = "must be PEM (text with BEGIN and END lines) with exactly one certificate"
PRIVATE = "must be only a certificate; this is a private key, which you should never share"
NO_AUTHORITY = (
    "must be the certificate of an authority: this one has no basic constraint CA:TRUE; "
    "send the certificate that signed it"
)
KINDS = "must use an rsa key, an ecdsa key on the curve P-256, P-384 or P-521, or an ed25519 key"
NOT_TO_SIGN = "must be a certificate that may sign others: the key usages of this one lack keyCertSign"
MALFORMED = "must contain certificates as they were issued; this one is damaged or does not conform to RFC 5280: "


def authority(kind: str = "p256", *extensions: str) -> Issued:
    return openssl.issue(f"/O=Example/CN=ca {kind}", kind, extensions=(*CA, *extensions))


def read_by_openssl(certificate: str) -> dict[str, Any]:
    facts = openssl.facts(certificate)
    return {name: facts[name] for name in READ}


def assert_pem_refused(admin: Client, ca_pem: Any, sentence: str) -> None:
    assert_invalid(admin.post(PATH, {"ca_pem": ca_pem}), {"ca_pem": sentence})


def test_an_authority_is_shown_whole_with_what_openssl_reads_in_it(admin: Client) -> None:
    usages = ("keyUsage=critical,keyCertSign,cRLSign", "extendedKeyUsage=clientAuth,1.2.3.4")
    ca_pem = authority("p256", *usages).certificate
    new_authority = admin.create(PATH, {"description": "d", "metadata": "m", "ca_pem": ca_pem})
    assert new_authority == {
        "id": new_authority["id"],
        "uri": f"http://localhost{PATH}/{new_authority['id']}",
        "created_at": new_authority["created_at"],
        "description": "d",
        "metadata": "m",
        "ca_pem": ca_pem,
        "subject_common_name": "ca p256",
        "not_before": new_authority["not_before"],
        "not_after": new_authority["not_after"],
        "key_usages": ["keyCertSign", "cRLSign"],
        "extended_key_usages": ["clientAuth", "1.2.3.4"],
    }
    assert {name: new_authority[name] for name in READ} == read_by_openssl(ca_pem)
    assert admin.get(f"{PATH}/{new_authority['id']}").json == new_authority


@pytest.mark.parametrize("kind", ["rsa-2048", "p384", "ed25519"])
def test_an_authority_may_have_a_key_of_any_kind_and_say_nothing_of_usages(admin: Client, kind: str) -> None:
    new_authority = admin.create(PATH, {"ca_pem": authority(kind).certificate})
    assert (new_authority["key_usages"], new_authority["extended_key_usages"]) == ([], [])
    assert {name: new_authority[name] for name in READ} == read_by_openssl(new_authority["ca_pem"])


def test_openssl_verifies_a_client_by_the_authority_that_is_shown(admin: Client) -> None:
    ca = authority("p256", "keyUsage=critical,keyCertSign")
    leaf = openssl.issue("/CN=client", extensions=("basicConstraints=CA:FALSE",), issuer=ca).certificate
    pem = admin.create(PATH, {"ca_pem": ca.certificate})["ca_pem"]
    assert openssl.run("verify", "-CAfile", "ca", "leaf", files={"ca": pem, "leaf": leaf}) == "leaf: OK\n"


def test_an_authority_between_others_is_one_too(admin: Client) -> None:
    between = openssl.certificates(openssl.chain("p256", "p256", "p256").certificate)[1]
    assert admin.create(PATH, {"ca_pem": between})["subject_common_name"] == "number 1 of 3"


def test_an_authority_that_expired_is_accepted(admin: Client) -> None:
    key = openssl.key("p256", "old")
    request = openssl.run("req", "-new", "-config", "config", "-subj", "/CN=old", "-key", "key", files={"key": key})
    dates = ("-startdate", "20200101000000Z", "-enddate", "20210101000000Z")
    signing = ("-selfsign", "-keyfile", "key", "-in", "request", "-extfile", "extensions", "-md", "sha256", *dates)
    files = {"key": key, "request": request, "extensions": CA[0]}
    old = openssl.run("ca", "-config", "config", "-batch", "-notext", *signing, files=files)
    new_authority = admin.create(PATH, {"ca_pem": old})
    assert (new_authority["not_before"], new_authority["not_after"]) == ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")


def test_the_pem_is_written_anew_with_a_final_newline(admin: Client) -> None:
    ca_pem = authority().certificate
    source = openssl.run("x509", "-text", stdin=ca_pem).replace("CERTIFICATE", "X509 CERTIFICATE").replace("\n", "\r\n")
    assert admin.create(PATH, {"ca_pem": f"{source}the end"})["ca_pem"] == ca_pem


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: 7, "must be a string in PEM format"),
    (lambda: "", NONE),
    (lambda: "ca.pem", NONE),
    (lambda: openssl.key("p256").replace("PRIVATE KEY", "X509 CRL"), "must be only a certificate, not a 'X509 CRL'"),
    (lambda: authority().certificate * 2, "must contain exactly one certificate, not 2: create an authority for each"),
    (lambda: openssl.issue("/CN=leaf").certificate, NO_AUTHORITY),
    (lambda: openssl.issue("/CN=leaf", extensions=("basicConstraints=critical,CA:FALSE",)).certificate, NO_AUTHORITY),
    (lambda: openssl.issue("/CN=leaf", extensions=("keyUsage=keyCertSign",)).certificate, NO_AUTHORITY),
    (lambda: authority("p256", "keyUsage=critical,digitalSignature,cRLSign").certificate, NOT_TO_SIGN),
    (lambda: authority("ed448").certificate, KINDS),
    (lambda: authority("secp256k1").certificate, KINDS),
]


@pytest.mark.parametrize(("ca_pem", "sentence"), REFUSED)
def test_what_is_no_certificate_of_an_authority_is_refused_with_a_reason(
    admin: Client, ca_pem: Callable[[], Any], sentence: str
) -> None:
    assert_pem_refused(admin, ca_pem(), sentence)


def test_a_private_key_is_refused_and_not_repeated(admin: Client) -> None:
    ca = authority()
    for ca_pem in (ca.key, ca.certificate + ca.key, ca.key + ca.certificate):
        answer = admin.post(PATH, {"ca_pem": ca_pem})
        assert_invalid(answer, {"ca_pem": PRIVATE})
        assert not any(line in answer.text for line in ca.key.splitlines()[1:-1])


def test_a_damaged_certificate_is_refused(admin: Client) -> None:
    lines = authority().certificate.splitlines(keepends=True)
    answer = admin.post(PATH, {"ca_pem": "".join([*lines[:2], *lines[3:]])})
    rule = answer.json["details"]["ca_pem"]
    assert_invalid(answer, {"ca_pem": rule})
    assert rule.startswith(MALFORMED)


def test_a_certificate_is_at_most_16_kib(admin: Client) -> None:
    def large(names: int) -> str:
        dns = ",".join(f"DNS:{'x' * 40}{number}.example.com" for number in range(names))
        return openssl.issue("/CN=large", extensions=(*CA, f"subjectAltName={dns}")).certificate

    assert admin.create(PATH, {"ca_pem": large(180)})["subject_common_name"] == "large"
    assert_pem_refused(admin, large(220), "must be at most 16384 bytes")


def test_an_authority_may_be_uploaded_twice(admin: Client) -> None:
    pem = authority().certificate
    first, second = (admin.create(PATH, {"ca_pem": pem}) for _ in range(2))
    server_fields = {"id": "", "uri": "", "created_at": ""}
    assert first["id"] != second["id"]
    assert {**first, **server_fields} == {**second, **server_fields}
