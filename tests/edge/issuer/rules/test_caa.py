"""CAA records that admit the CA, and records that do not."""

import pytest

from edge.issuer.rules import caa
from edge.issuer.rules.caa import CaaRecord, Wish

ACCOUNT = "https://ca.example/acct/1"
SINGLE = Wish(("ca.example", "ca2.example"), ACCOUNT, "http-01")
WILDCARD = SINGLE._replace(method="dns-01", is_wildcard=True)


def records(*texts: str) -> list[CaaRecord]:
    parts = (text.split(" ", 2) for text in texts)
    return [CaaRecord(int(flags), tag, value) for flags, tag, value in parts]


@pytest.mark.parametrize(
    ("lines", "wish", "is_admitted"),
    [
        ((), SINGLE, True),
        (("0 issue ca.example",), SINGLE, True),
        (("0 issue CA2.example.",), SINGLE, True),
        (("0 ISSUE other.example", "0 issue ca.example"), SINGLE, True),
        (("0 issue other.example",), SINGLE, False),
        (("0 issue ;",), SINGLE, False),
        (("0 issue ca.example.evil",), SINGLE, False),
        (("0 iodef mailto:x@a.example",), SINGLE, True),
        (("128 future x",), SINGLE, False),
        (("0 future x",), SINGLE, True),
        (("0 issuewild other.example",), SINGLE, True),
        (("0 issuewild other.example",), WILDCARD, False),
        (("0 issue ca.example",), WILDCARD, True),
        (("0 issue ca.example", "0 issuewild ;"), WILDCARD, False),
        (("0 issue other.example", "0 issuewild ca.example"), WILDCARD, True),
        ((f"0 issue ca.example; accounturi={ACCOUNT}",), SINGLE, True),
        ((f"0 issue ca.example; accounturi={ACCOUNT}9",), SINGLE, False),
        ((f"0 issue ca.example; accounturi={ACCOUNT}; accounturi={ACCOUNT}",), SINGLE, False),
        (("0 issue ca.example; validationmethods=http-01,dns-01",), SINGLE, True),
        (("0 issue ca.example; ValidationMethods = dns-01",), SINGLE, False),
        (("0 issue ca.example; validationmethods=dns-01",), WILDCARD, True),
        (("0 issue ca.example;",), SINGLE, True),
        (("0 issue other.example",), SINGLE._replace(identities=()), True),
    ],
)
def test_records_admit_the_ca(lines: tuple[str, ...], wish: Wish, is_admitted: bool) -> None:
    assert caa.admits(records(*lines), wish) is is_admitted


OWN_RECORD = f"0 issue ca.example; accounturi={ACCOUNT}; validationmethods=dns-01"


@pytest.mark.parametrize(
    ("lines", "protects"),
    [
        ((), False),
        ((OWN_RECORD,), True),
        ((OWN_RECORD.replace("; ", " ;  "), "0 iodef mailto:x@a.example"), True),
        ((OWN_RECORD, "0 issuewild ;"), True),
        ((OWN_RECORD, "0 issuewild ca.example"), False),
        ((OWN_RECORD, "0 issue other.example"), False),
        (("0 issuewild ;",), False),
        (("0 issue ;",), True),
        (("0 issue ca.example",), False),
        ((f"0 issue ca.example; accounturi={ACCOUNT}",), False),
        ((OWN_RECORD.replace("acct/1", "acct/2"),), False),
        ((OWN_RECORD.replace("dns-01", "dns-01,http-01"),), False),
    ],
)
def test_records_protect_names_if_they_admit_only_the_account(lines: tuple[str, ...], *, protects: bool) -> None:
    assert caa.protects(records(*lines), WILDCARD) is protects
