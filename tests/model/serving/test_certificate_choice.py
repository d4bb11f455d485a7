"""Which certificate stands for a host name, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.model.serving import certificate_choice
from chalicelib.model.tls.tls_certificates import ServedCertificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def certificate(id: str, *names: str, since: int = -1, until: int = 1) -> ServedCertificate:
    return ServedCertificate("acct_a", id, "", names, NOW + since * DAY, NOW + until * DAY)


EXACT, WILDCARD = certificate("1", "a.example.com"), certificate("2", "*.example.com", until=9)
OTHER, ENDED = certificate("3", "b.example.com", until=99), certificate("4", "a.example.com", since=-9, until=0)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("a.example.com", "a.example.com", True),
        ("A.Example.Com", "a.example.com", True),
        ("a.example.com", "b.a.example.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.EXAMPLE.com", "a.example.com", True),
        ("*.example.com", "b.a.example.com", False),
        ("*.example.com", "example.com", False),
        ("*.example.com", "aexample.com", False),
        ("*", "a", False),
        ("a*.example.com", "ab.example.com", False),
    ],
)
def test_a_wildcard_is_one_label(pattern: str, name: str, covered: bool) -> None:
    assert certificate_choice.covers(pattern, name) is covered


@pytest.mark.parametrize(
    ("certificates", "chosen", "expected"),
    [
        ((), "", None),
        ((EXACT,), "", "1"),
        ((WILDCARD,), "", "2"),
        ((OTHER,), "", None),
        ((certificate("1", "x.example.com", "A.Example.com"),), "", "1"),
        ((ENDED,), "", None),
        ((certificate("1", "a.example.com", since=0),), "", "1"),  # from its first moment
        ((certificate("1", "a.example.com", since=1, until=2),), "", None),
        # one of the very name before a wildcard, however long that runs
        ((EXACT, WILDCARD), "", "1"),
        ((ENDED, WILDCARD), "", "2"),
        ((certificate("1", "*.example.com", "a.example.com"), WILDCARD), "", "1"),
        # of several the one that runs longest, of those the newest
        ((EXACT, certificate("5", "a.example.com", until=3)), "", "5"),
        ((certificate("5", "a.example.com", until=3), EXACT), "", "5"),
        ((certificate("7", "a.example.com"), EXACT), "", "7"),
        ((certificate("7", "a.example.com"), certificate("5", "a.example.com", until=3)), "", "5"),
        ((certificate("1", "A.Example.com"), WILDCARD), "", "1"),
        # the reservation's choice before all
        ((EXACT, WILDCARD), "2", "2"),
        ((EXACT, certificate("5", "a.example.com", until=3)), "1", "1"),
        # unless it does not cover the host, has ended or is not there
        ((EXACT, OTHER), "3", "1"),
        ((OTHER,), "3", None),
        ((ENDED, WILDCARD), "4", "2"),
        ((ENDED,), "4", None),
        ((EXACT,), "9", "1"),
    ],
)
def test_the_chosen_certificate_wins_then_the_exact_one_then_the_wildcard_then_the_longest(
    certificates: tuple[ServedCertificate, ...], chosen: str, expected: str | None
) -> None:
    assert certificate_choice.choose("a.example.com", certificates, NOW, chosen=chosen) == expected
