"""The openssl command: it makes keys and certificates, each once in a run, and says what it reads in them."""

import ipaddress
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from chalicelib.crypto import keys, pem
from tests.needs import need
from tests.transports import RECORD

CA = ("basicConstraints=critical,CA:TRUE",)  # the extensions of an authority
_KEYS = {
    "rsa-512": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:512"),
    "rsa-1024": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"),
    "rsa-2048": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
    "rsa-pss": ("-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"),
    "p256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "p384": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"),
    "p521": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"),
    "secp256k1": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:secp256k1"),
    "ed25519": ("-algorithm", "ED25519"),
    "ed448": ("-algorithm", "ED448"),
    "dh": ("-algorithm", "DH", "-pkeyopt", "group:ffdhe2048"),
}
_CONFIG = """
[req]
distinguished_name = dn
[old]
distinguished_name = dn
string_mask = pkix
[dn]
[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
policy = any
rand_serial = yes
[any]
commonName = optional
"""
_KEY_USAGES = {
    "Digital Signature": "digitalSignature",
    "Non Repudiation": "contentCommitment",  # its name in X.509 before 2005
    "Key Encipherment": "keyEncipherment",
    "Data Encipherment": "dataEncipherment",
    "Key Agreement": "keyAgreement",
    "Certificate Sign": "keyCertSign",
    "CRL Sign": "cRLSign",
    "Encipher Only": "encipherOnly",
    "Decipher Only": "decipherOnly",
}
_EXTENDED_KEY_USAGES = {
    "TLS Web Server Authentication": "serverAuth",
    "TLS Web Client Authentication": "clientAuth",
    "Code Signing": "codeSigning",
    "E-mail Protection": "emailProtection",
    "Time Stamping": "timeStamping",
    "OCSP Signing": "OCSPSigning",
    "Any Extended Key Usage": "anyExtendedKeyUsage",
    "Microsoft Server Gated Crypto": "1.3.6.1.4.1.311.10.3.3",
}
_KEY_TYPES = {"rsaEncryption": "rsa", "id-ecPublicKey": "ecdsa", "ED25519": "ed25519"}


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key, both PEM."""

    certificate: str
    key: str

    @property
    def upload(self) -> dict[str, str]:
        """Return the fields of a body that creates a TLS certificate of it."""
        return {"certificate_pem": self.certificate, "private_key_pem": self.key}


def run(*arguments: str, stdin: str | bytes = "", files: Mapping[str, str] | None = None) -> str:
    """Run openssl in a new folder with these files; return what it prints."""
    need("openssl")
    with TemporaryDirectory() as folder:
        for name, content in {"config": _CONFIG, "index.txt": "", **(files or {})}.items():
            Path(folder, name).write_text(content)
        command = ["openssl", *arguments]
        input_bytes = stdin if isinstance(stdin, bytes) else stdin.encode()
        process = subprocess.run(command, cwd=folder, input=input_bytes, capture_output=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return process.stdout.decode()


def secret(key: str) -> str:
    """Return the private key, and record it for the test that looks for secrets in what is said."""
    RECORD.secrets.update(line for line in key.splitlines() if len(line) == 64)
    return key


@cache
def key(kind: str, name: str = "") -> str:
    """Return a private key of the kind as PKCS#8 PEM; another one for another name."""
    if kind == "rsa-4096":  # the command takes seconds where this takes tenths of one
        return secret(pem.encode("PRIVATE KEY", keys.to_der(keys.generate_rsa(4096))))
    return secret(run("genpkey", *_KEYS[kind]))


@cache
def issue(
    subject: str = "/CN=a.example",
    kind: str = "p256",
    *,
    extensions: tuple[str, ...] = (),
    issuer: Issued | None = None,
    options: tuple[str, ...] = (),
) -> Issued:
    """Return a certificate that is valid from now on, signed by the issuer, or by its own key without one."""
    private_key = key(kind, "" if kind.startswith("rsa") else subject)  # RSA keys take long to make
    files = {"key": private_key} | ({"ca": issuer.certificate, "cakey": issuer.key} if issuer else {})
    signing_options = ("-CA", "ca", "-CAkey", "cakey") if issuer else ()
    added = [part for extension in extensions for part in ("-addext", extension)]
    request = ("req", "-x509", "-new", "-config", "config", "-utf8", "-subj", subject, "-key", "key")
    return Issued(run(*request, *signing_options, *added, *options, files=files), private_key)


@cache
def issue_for(start: str, end: str) -> Issued:
    """Return a certificate that is valid between two times written as 20260131120000Z."""
    private_key = key("p256", "dated")
    request = run(
        "req", "-new", "-config", "config", "-subj", "/CN=dated.example", "-key", "key", files={"key": private_key}
    )
    signing = ("ca", "-config", "config", "-batch", "-notext", "-selfsign", "-md", "sha256")
    dates = ("-startdate", start, "-enddate", end)
    files = {"key": private_key, "request": request}
    return Issued(run(*signing, *dates, "-keyfile", "key", "-in", "request", files=files), private_key)


@cache
def chain(*kinds: str) -> Issued:
    """Return a chain of one certificate for each kind of key, leaf first, root last; the key is the leaf's."""
    issued, chain = None, ""
    for number, kind in reversed(list(enumerate(kinds))):
        constraint = f"basicConstraints=critical,CA:{'TRUE' if number else 'FALSE'}"
        issued = issue(f"/CN=number {number} of {len(kinds)}", kind, extensions=(constraint,), issuer=issued)
        chain = issued.certificate + chain
    assert issued
    return Issued(chain, issued.key)


def certificates(chain: str) -> list[str]:
    """Return the certificates of a chain, each as PEM."""
    return re.findall(r"-----BEGIN CERTIFICATE-----\n.*?-----END CERTIFICATE-----\n", chain, flags=re.DOTALL)


def facts(certificate: str) -> dict[str, Any]:
    """Return the first certificate of a text as openssl reads it, in the fields and words of the API."""
    names = ("-subject", "-issuer", "-nameopt", "multiline,utf8,-esc_msb")
    dates = ("-dates", "-dateopt", "iso_8601")
    text = run("x509", "-noout", "-text", *names, "-serial", *dates, stdin=certificate)
    subject, issuer = text.partition("subject=")[2].split("serial=")[0].split("issuer=")
    alternative_names = _read_list(text, "Subject Alternative Name")
    return {
        "subject_common_name": _first(subject, "commonName"),
        "subject_organization": _first(subject, "organizationName"),
        "subject_organizational_unit": _first(subject, "organizationalUnitName"),
        "subject_locality": _first(subject, "localityName"),
        "subject_province": _first(subject, "stateOrProvinceName"),
        "subject_country": _first(subject, "countryName"),
        "issuer_common_name": _first(issuer, "commonName"),
        "serial_number": _after(text, "serial=").lower(),
        "not_before": _after(text, "notBefore=").replace(" ", "T"),
        "not_after": _after(text, "notAfter=").replace(" ", "T"),
        "subject_alternative_names": {
            "dns_names": [name.removeprefix("DNS:") for name in alternative_names if name.startswith("DNS:")],
            "ips": [_address(name) for name in alternative_names if name.startswith("IP Address:")],
        },
        "key_usages": [_KEY_USAGES[usage] for usage in _read_list(text, "X509v3 Key Usage")],
        "extended_key_usages": [_EXTENDED_KEY_USAGES.get(u, u) for u in _read_list(text, "Extended Key Usage")],
        "private_key_type": _KEY_TYPES[re.findall("Public Key Algorithm: (.+)", text)[0]],
    }


def _first(name: str, part: str) -> str:
    return next(iter(re.findall(rf"^ *{part} += (.*)$", name.replace(" + ", "\n"), flags=re.MULTILINE)), "")


def _after(text: str, label: str) -> str:
    return str(re.findall(f"^{label}(.*)$", text, flags=re.MULTILINE)[0])


def _read_list(text: str, title: str) -> list[str]:
    match = re.search(rf"{title}: ?(?:critical)?\n +(.*)", text)
    return match[1].split(", ") if match else []


def _address(name: str) -> str:
    return str(ipaddress.ip_address(name.removeprefix("IP Address:")))
