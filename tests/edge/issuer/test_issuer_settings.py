"""The settings of the issuer: what is read from the environment, and what is rejected."""

from pathlib import Path

import pytest

from edge.issuer import issuer_settings
from edge.issuer.issuer_settings import DnsSettings, IssuerSettings, TsigKey
from edge.process.settings import SettingError

REQUIRED = {"ACME_DIRECTORY": "https://ca.example/dir", "ACME_TERMS_AGREED": "true"}
DNS = {
    "ACME_DNS_ZONE": "ACME.example.com.",
    "ACME_DNS_SERVER": "ns.example.com:5353",
    "ACME_DNS_KEY": "Updates:hmac-sha256:a2V5",
}
KEY = TsigKey("updates", b"key")


def test_an_issuer_needs_a_directory_and_agreed_terms() -> None:
    assert issuer_settings.from_environment(REQUIRED) == IssuerSettings("https://ca.example/dir")
    assert issuer_settings.is_configured(REQUIRED)
    assert not issuer_settings.is_configured({"ACME_DIRECTORY": " "})


def test_everything_can_be_set() -> None:
    more = {
        "ACME_CONTACT": "mailto:ops@example.com",
        "ACME_EAB_KID": "kid",
        "ACME_EAB_HMAC": "hmac",
        "ACME_PROFILE": "shortlived",
        "ACME_CA_BUNDLE": "/etc/ca.pem",
        "ACME_HTTP_PORT": "8080",
        "ACME_OPERATOR": "true",
    }
    parsed = issuer_settings.from_environment({**REQUIRED, **DNS, **more})
    dns = DnsSettings("acme.example.com", "ns.example.com", 5353, KEY)
    contact, directory = "mailto:ops@example.com", "https://ca.example/dir"
    assert parsed == IssuerSettings(
        directory, contact, "kid", "hmac", "shortlived", "/etc/ca.pem", 8080, orders_operator=True, dns=dns
    )
    assert "hmac" not in repr(parsed)
    assert "key'" not in repr(parsed)


def test_a_key_can_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("updates:hmac-sha256:a2V5\n")
    assert issuer_settings.parse_key(str(tmp_path / "key")) == KEY


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"ACME_DIRECTORY": "http://ca.example"}, "ACME_DIRECTORY must be the https URL of a CA's ACME directory."),
        (
            {"ACME_TERMS_AGREED": "yes"},
            "Automatic certificates need ACME_TERMS_AGREED=true: read the terms of the CA first.",
        ),
        ({"ACME_CONTACT": "ops@x"}, "ACME_CONTACT must be a mailto URL, for example mailto:ops@example.com."),
        ({"ACME_EAB_KID": "kid"}, "ACME_EAB_KID and ACME_EAB_HMAC belong together: set both or neither."),
        ({"ACME_HTTP_PORT": "0"}, "ACME_HTTP_PORT=0 is not a port: choose one from 1 to 65535."),
        (
            {"ACME_DNS_KEY": ""},
            "ACME_DNS_ZONE, ACME_DNS_SERVER and ACME_DNS_KEY belong together: set all or none.",
        ),
        (
            {"ACME_DNS_KEY": "updates:hmac-md5:a2V5"},
            "ACME_DNS_KEY must be a key of the form name:hmac-sha256:base64, or the path of its file.",
        ),
        (
            {"ACME_DNS_KEY": "updates:hmac-sha256:?"},
            "ACME_DNS_KEY must be a key of the form name:hmac-sha256:base64, or the path of its file.",
        ),
        ({"ACME_DNS_KEY": "/no/file"}, "ACME_DNS_KEY names a file that cannot be read (FileNotFoundError)."),
        (
            {"ACME_DNS_SERVER": "ns.example.com"},
            "ACME_DNS_SERVER=ns.example.com is not a server: write its host and port, as ns.example.com:53.",
        ),
        ({"ACME_OPERATOR": "1"}, "ACME_OPERATOR=1 must be true or false."),
        (
            {"ACME_OPERATOR": "true", "EDGE_CERTIFICATE": "/etc/cert.pem"},
            "ACME_OPERATOR=true and EDGE_CERTIFICATE exclude each other: unset one of them.",
        ),
        (
            {"ACME_OPERATOR": "true", **dict.fromkeys(DNS, "")},
            "ACME_OPERATOR=true needs ACME_DNS_ZONE, because the CA verifies wildcards by DNS.",
        ),
    ],
)
def test_an_invalid_setting_is_named(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError) as error:
        issuer_settings.from_environment({**REQUIRED, **DNS, **variables})
    assert str(error.value) == sentence
