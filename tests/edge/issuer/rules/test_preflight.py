"""What the preflight decides: a mistake of the owner costs the CA no request."""

import pytest

from chalicelib.model.tls.renewals import ErrorCode, Method
from edge.issuer.rules import preflight
from edge.issuer.rules.caa import CaaRecord
from edge.issuer.rules.preflight import CaAccount, Finding, HttpAnswer

CA = CaAccount(("ca.example",), "https://ca.example/acct/1")
OWN_ANSWER, OTHER_ANSWER = (
    HttpAnswer("192.0.2.1", "answered 200", True),
    HttpAnswer("2001:db8::1", "answered 404", False),
)


@pytest.mark.parametrize(
    ("domain", "is_verified", "alias", "code"),
    [
        ("a.example", False, "present", "domain_unproved"),
        ("a.example", True, "absent", ""),
        ("a.example", True, "unknown", ""),
        ("*.a.example", False, "absent", "domain_unproved"),
        ("*.a.example", True, "absent", "dns_alias_missing"),
        ("*.a.example", True, "unknown", "dns_alias_missing"),
        ("*.a.example", True, "present", ""),
    ],
)
def test_a_domain_needs_its_proof_and_a_wildcard_its_alias(
    domain: str, is_verified: bool, alias: Finding, code: ErrorCode
) -> None:
    failure = preflight.check_domain(domain, is_verified=is_verified, alias=alias, target="x.acme.example")
    assert (failure.code if failure else "") == code


@pytest.mark.parametrize(
    ("domain", "alias", "method"),
    [
        ("a.example", "absent", "http-01"),
        ("a.example", "unknown", "http-01"),
        ("a.example", "present", "dns-01"),
        ("*.a.example", "absent", "dns-01"),
    ],
)
def test_wildcards_and_aliases_are_challenged_by_dns(domain: str, alias: Finding, method: Method) -> None:
    assert preflight.choose_method(domain, alias) == method


@pytest.mark.parametrize(
    ("value", "method", "code"),
    [
        ("ca.example", "http-01", ""),
        ("other.example", "http-01", "caa_forbids"),
        ("ca.example; validationmethods=dns-01", "http-01", "caa_forbids"),
        ("ca.example; validationmethods=dns-01", "dns-01", ""),
    ],
)
def test_caa_records_must_admit_the_ca(value: str, method: Method, code: str) -> None:
    failure = preflight.check_caa("a.example", [CaaRecord(0, "issue", value)], CA, method)
    assert (failure.code if failure else "") == code


@pytest.mark.parametrize(
    ("answers", "msg"),
    [
        ((OWN_ANSWER,), ""),
        ((OWN_ANSWER, OWN_ANSWER), ""),
        ((OWN_ANSWER, OTHER_ANSWER), "Point a.example to this service and open port 80: 2001:db8::1 answered 404."),
        ((), "Point a.example to this service and open port 80: no public address was found."),
    ],
)
def test_every_address_must_answer(answers: tuple[HttpAnswer, ...], msg: str) -> None:
    failure = preflight.check_answers("a.example", answers, 80)
    assert (failure.msg if failure else "") == msg
