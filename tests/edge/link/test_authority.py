"""The authorities of the edge: what they issue, and what a local one may not issue."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edge.link import authority
from edge.link.authority import Authority, KeyPair
from tests import openssl


def verify(trusted_authority: Authority, pair: KeyPair, name: str) -> str:
    """Return the error of a client that trusts the authority, or "" for a good certificate."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=trusted_authority.pem)
    authority.load_into(server, pair)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in sides * 3:
        try:
            end.do_handshake()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLWantReadError:
            pass
    return ""


@pytest.mark.parametrize(
    ("domain", "names", "name", "error"),
    [
        ("", ["gw-1"], "gw-1", ""),
        ("", ["gw-1"], "gw-2", "Hostname mismatch, certificate is not valid for 'gw-2'."),
        ("t.example.com", ["t.example.com", "*.t.example.com"], "a.t.example.com", ""),
        ("t.example.com", ["bank.example"], "bank.example", "permitted subtree violation"),
        ("t.example.com", ["xt.example.com"], "xt.example.com", "permitted subtree violation"),
    ],
)
def test_a_local_authority_is_only_good_for_its_domain(domain: str, names: list[str], name: str, error: str) -> None:
    local = authority.make("Local", domain)
    assert verify(local, local.issue(*names), name) == error


def test_another_authority_is_not_trusted() -> None:
    pair = authority.make("Link").issue("gw-1")
    assert verify(authority.make("Link"), pair, "gw-1") != ""


def connect_as(pair: KeyPair, trusted_authority: Authority) -> str:
    """Return the error of a server that requires certificates, or "" if it accepts the client's pair."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=trusted_authority.pem)
    authority.load_into(server, trusted_authority.issue("gw-1"))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=trusted_authority.pem)
    authority.load_into(client, pair)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname="gw-1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in sides * 3:
        try:
            end.do_handshake()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
        except ssl.SSLWantReadError:
            pass
    return ""


def test_the_pair_of_a_server_cannot_connect_to_others() -> None:
    link = authority.make("Link")
    pair = link.issue_for_server("sign-in")
    assert verify(link, pair, "sign-in") == ""
    assert connect_as(link.issue("edge"), link) == ""
    assert connect_as(pair, link) == "unsuitable certificate purpose"


def test_a_certificate_lasts_ninety_days_and_cannot_sign_others() -> None:
    leaf = x509.load_pem_x509_certificate(authority.make("Link").issue("gw-1").chain.encode())
    constraints = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    now = datetime.now(UTC)
    assert timedelta(days=89) < leaf.not_valid_after_utc - now <= timedelta(days=90)
    assert leaf.not_valid_before_utc <= now - timedelta(minutes=50)  # clocks differ


def test_a_long_name_is_cut_in_the_subject_only() -> None:
    name = f"{'a' * 60}.example.com"
    assert authority.make("Link").issue(name, "b.example.com").dns_names() == {name, "b.example.com"}


def test_a_certificate_without_names_has_none() -> None:
    assert KeyPair(openssl.issue("/CN=a").certificate, "").dns_names() == frozenset()
    with pytest.raises(ValueError, match="PEM"):
        KeyPair("no certificate", "").dns_names()


def test_an_authority_is_made_once_and_read_after_that(tmp_path: Path) -> None:
    file = tmp_path / "authority.pem"
    stored = authority.load_or_make(file, "Local", "t.example.com")
    assert file.stat().st_mode & 0o777 == 0o600
    read = authority.load_or_make(file, "Another", "other.example.com")
    assert (read.pem, read.to_pem()) == (stored.pem, stored.to_pem())
    assert verify(stored, read.issue("a.t.example.com"), "a.t.example.com") == ""


def test_a_key_of_another_kind_is_no_authority() -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match=r"^must contain the private key as an elliptic curve key$"):
        authority.from_pem(key.decode() + authority.make("Link").pem)


def test_a_private_key_is_in_no_text_of_its_owners() -> None:
    link = authority.make("Link")
    pair = link.issue("gw-1")
    assert repr(pair) == "KeyPair(…)"
    assert "PRIVATE" not in f"{link!r}{pair!r}{pair}"
