"""Files that are cut off, damaged, huge or made up: always a refusal with a reason, never a failure of the service."""

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.crypto import pem
from tests import openssl
from tests.transports import Answer, Client

PATH = "/tls_certificates"
RICH = {"extensions": ("subjectAltName=DNS:a.example,IP:192.0.2.1,email:a@a.example", "keyUsage=digitalSignature")}
FREELY = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


def assert_taken_or_refused(answer: Answer) -> None:
    assert answer.status in (201, 400, 413), answer.text
    if answer.status == 400:
        reasons = {name: text for name, text in answer.json["details"].items() if name != "operation_id"}
        assert reasons
        assert reasons.keys() <= {"certificate_pem", "private_key_pem"}
        assert all(text.startswith("must ") for text in reasons.values())


def send(admin: Client, *, chain: str, key: str) -> None:
    assert_taken_or_refused(admin.post(PATH, {"certificate_pem": chain, "private_key_pem": key}))


LABELS = st.sampled_from(["CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS", "X"])
BLOCKS = st.builds(pem.encode, LABELS, st.binary(max_size=200))
PIECES = st.one_of(
    st.text(max_size=50), BLOCKS, st.sampled_from(["-----BEGIN X-----", "-----END X-----", "\n", "-----"])
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@FREELY
@given(chain=TEXTS, key=TEXTS)
def test_anything_is_refused_with_a_reason(admin: Client, chain: str, key: str) -> None:
    answer = admin.post(PATH, {"certificate_pem": chain, "private_key_pem": key})
    assert_taken_or_refused(answer)
    assert answer.status == 400


@FREELY
@given(data=st.data())
def test_a_file_that_is_cut_off_anywhere_is_refused(admin: Client, data: st.DataObject) -> None:
    issued = openssl.issue(**RICH)
    original = data.draw(st.sampled_from([issued.certificate, issued.key])).rstrip("\n")
    cut = original[: data.draw(st.integers(0, len(original) - 1))]
    upload = {name: cut if text.startswith(original) else text for name, text in issued.upload.items()}
    answer = admin.post(PATH, upload)
    assert_taken_or_refused(answer)
    assert answer.status == 400


def damage(data: st.DataObject, text: str) -> str:
    """Return a PEM text whose content has a few bytes or bits changed, added or left out."""
    label, content = text.splitlines()[0][11:-5], bytearray(base64.b64decode("".join(text.splitlines()[1:-1])))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["bit", "byte", "more", "less"]))
        if change == "bit":
            content[position] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "byte":
            content[position] = data.draw(st.integers(0, 255))
        elif change == "more":
            content[position:position] = data.draw(st.binary(min_size=1, max_size=20))
        else:
            del content[position : min(position + data.draw(st.integers(1, 20)), len(content) - 1)]
    return pem.encode(label, bytes(content))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(FREELY, max_examples=100)
@given(data=st.data())
def test_a_damaged_file_is_never_a_failure_of_the_service(admin: Client, data: st.DataObject) -> None:
    chain = openssl.chain("p256", "p256")
    issued = data.draw(st.sampled_from([openssl.issue(**RICH), chain]))
    first, *intermediates = openssl.certificates(issued.certificate)
    send(admin, chain="".join([damage(data, first), *intermediates]), key=issued.key)
    send(admin, chain=issued.certificate, key=damage(data, issued.key))


@pytest.mark.parametrize("count", [1_000, 60_000])
def test_huge_fields_are_refused(admin: Client, count: int) -> None:
    for huge in ("x", "\n", "-----BEGIN X-----", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"):
        answer = admin.post(PATH, {"certificate_pem": huge * count, "private_key_pem": huge * count})
        assert answer.status in (400, 413)
        assert_taken_or_refused(answer)
