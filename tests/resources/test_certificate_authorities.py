"""Certificate authorities by their own rules; openssl makes them, and says what stands in them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import openssl
from tests.openssl import Issued
from tests.refusals import assert_invalid
from tests.samples import CA
from tests.transports import Client

PATH = "/certificate_authorities"
READ = ("subject_common_name", "not_before", "not_after", "key_usages", "extended_key_usages")
NONE = "must be PEM, a text with BEGIN and END lines, and hold exactly one certificate"
PRIVATE = "must hold a certificate alone, not a private key, which nobody else should ever see"
NO_AUTHORITY = (
    "must be the certificate of an authority: the basic constraints of this one do not say CA:TRUE; "
    "send the certificate that signed it"
)
NOT_TO_SIGN = "must be a certificate that may sign others: the key usages of this one leave out keyCertSign"
MALFORMED = "must hold certificates as they were issued; this one is damaged or not as RFC 5280 demands: "


def authority(kind: str = "p256", *extensions: str) -> Issued:
    return openssl.issue(f"/O=Example/CN=ca {kind}", kind, extensions=(*CA, *extensions))


def read_by_openssl(certificate: str) -> dict[str, Any]:
    facts = openssl.facts(certificate)
    return {name: facts[name] for name in READ}


def refused(admin: Client, ca_pem: Any, sentence: str) -> None:
    assert_invalid(admin.post(PATH, {"ca_pem": ca_pem}), {"ca_pem": sentence})


def test_an_authority_is_shown_whole_with_what_openssl_reads_in_it(admin: Client) -> None:
    usages = ("keyUsage=critical,keyCertSign,cRLSign", "extendedKeyUsage=clientAuth,1.2.3.4")
    ca_pem = authority("p256", *usages).certificate
    created = admin.create(PATH, {"description": "d", "metadata": "m", "ca_pem": ca_pem})
    assert created == {
        "id": created["id"],
        "uri": f"http://localhost{PATH}/{created['id']}",
        "created_at": created["created_at"],
        "description": "d",
        "metadata": "m",
        "ca_pem": ca_pem,
        "subject_common_name": "ca p256",
        "not_before": created["not_before"],
        "not_after": created["not_after"],
        "key_usages": ["keyCertSign", "cRLSign"],
        "extended_key_usages": ["clientAuth", "1.2.3.4"],
    }
    assert {name: created[name] for name in READ} == read_by_openssl(ca_pem)
    assert admin.get(f"{PATH}/{created['id']}").json == created


@pytest.mark.parametrize("kind", ["rsa-2048", "rsa-4096", "p384", "p521", "ed25519"])
def test_an_authority_may_have_a_key_of_any_kind_and_say_nothing_of_usages(admin: Client, kind: str) -> None:
    created = admin.create(PATH, {"ca_pem": authority(kind).certificate})
    assert (created["key_usages"], created["extended_key_usages"]) == ([], [])
    assert {name: created[name] for name in READ} == read_by_openssl(created["ca_pem"])


def test_openssl_verifies_a_client_by_the_authority_that_is_shown(admin: Client) -> None:
    ca = authority("p256", "keyUsage=critical,keyCertSign")
    leaf = openssl.issue("/CN=client", extensions=("basicConstraints=CA:FALSE",), issuer=ca).certificate
    stored = admin.create(PATH, {"ca_pem": ca.certificate})["ca_pem"]
    assert openssl.run("verify", "-CAfile", "ca", "leaf", files={"ca": stored, "leaf": leaf}) == "leaf: OK\n"


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
    created = admin.create(PATH, {"ca_pem": old})
    assert (created["not_before"], created["not_after"]) == ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")


REWRITINGS: dict[str, Callable[[str], str]] = {
    "without the final newline": str.strip,
    "with the line ends of Windows": lambda pem: pem.replace("\n", "\r\n"),
    "with a text around it": lambda pem: openssl.run("x509", "-text", stdin=pem) + "the end",
    "with an older label": lambda pem: pem.replace("CERTIFICATE", "X509 CERTIFICATE"),
}


@pytest.mark.parametrize("rewritten", REWRITINGS.values(), ids=REWRITINGS.keys())
def test_the_pem_is_written_anew_with_a_final_newline(admin: Client, rewritten: Callable[[str], str]) -> None:
    ca_pem = authority().certificate
    assert admin.create(PATH, {"ca_pem": rewritten(ca_pem)})["ca_pem"] == ca_pem


@pytest.mark.parametrize(
    ("ca_pem", "sentence"),
    [
        (None, "must be a string of PEM"),
        (7, "must be a string of PEM"),
        (["x"], "must be a string of PEM"),
        ("", NONE),
        ("ca.pem", NONE),
        (
            "-----BEGIN CERTIFICATE-----\nAA==\n",
            "must be whole PEM: every BEGIN line needs its END line; the text seems to be cut off",
        ),
        (
            "-----BEGIN CERTIFICATE-----\n§\n-----END CERTIFICATE-----\n",
            "must be undamaged PEM: between a BEGIN and an END line stands what is not base64; "
            "send the file as it is, with its line breaks",
        ),
        (
            "-----BEGIN X509 CRL-----\nAA==\n-----END X509 CRL-----\n",
            "must hold a certificate alone, not a 'X509 CRL'",
        ),
    ],
)
def test_what_is_no_certificate_is_refused_with_a_reason(admin: Client, ca_pem: Any, sentence: str) -> None:
    refused(admin, ca_pem, sentence)


def test_a_certificate_is_required(admin: Client) -> None:
    assert_invalid(admin.post(PATH, {}), {"ca_pem": "is required"})


def test_several_certificates_are_refused(admin: Client) -> None:
    one = authority().certificate
    refused(admin, one * 2, "must hold exactly one certificate, not 2: create an authority for each")
    chain = openssl.chain("p256", "p256", "p256").certificate
    refused(admin, chain, "must hold exactly one certificate, not 3: create an authority for each")


@pytest.mark.parametrize("extensions", [(), ("basicConstraints=critical,CA:FALSE",), ("keyUsage=keyCertSign",)])
def test_a_certificate_that_is_not_an_authority_s_is_refused(admin: Client, extensions: tuple[str, ...]) -> None:
    leaf = openssl.issue("/CN=leaf", extensions=extensions).certificate
    refused(admin, leaf, NO_AUTHORITY)


def test_a_certificate_that_may_not_sign_is_refused(admin: Client) -> None:
    refused(admin, authority("p256", "keyUsage=critical,digitalSignature,cRLSign").certificate, NOT_TO_SIGN)


def test_a_private_key_is_refused_and_not_repeated(admin: Client) -> None:
    ca = authority()
    for ca_pem in (ca.key, ca.certificate + ca.key, ca.key + ca.certificate):
        answer = admin.post(PATH, {"ca_pem": ca_pem})
        assert_invalid(answer, {"ca_pem": PRIVATE})
        assert not any(line in answer.text for line in ca.key.splitlines()[1:-1])


@pytest.mark.parametrize("kind", ["ed448", "secp256k1", "rsa-pss"])
def test_a_key_of_another_kind_is_refused(admin: Client, kind: str) -> None:
    sentence = "must use a key that is rsa, ecdsa on the curve P-256, P-384 or P-521, or ed25519"
    refused(admin, authority(kind).certificate, sentence)


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
    refused(admin, large(220), "must be at most 16384 bytes")


def test_the_certificate_never_changes(admin: Client) -> None:
    created = admin.create(PATH, {"ca_pem": authority().certificate})
    answer = admin.patch(f"{PATH}/{created['id']}", {"ca_pem": authority("ed25519").certificate, "description": "new"})
    assert_invalid(answer, {"ca_pem": "is not a field here; known: description, metadata"})
    assert admin.get(f"{PATH}/{created['id']}").json == created


def test_an_authority_may_be_uploaded_twice(admin: Client) -> None:
    first, second = (admin.create(PATH, {"ca_pem": authority().certificate}) for _ in range(2))
    same = {"id": "", "uri": "", "created_at": ""}
    assert first["id"] != second["id"]
    assert {**first, **same} == {**second, **same}
