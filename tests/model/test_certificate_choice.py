"""Which certificate a host is served with: the whole table of the rule."""

import pytest

from chalicelib.model.certificate_choice import OPERATOR, Candidate, choose

NOW = 1000
EXACT = Candidate("cert_exact", ("a.example.com",), 0, 2000)
LONGER = Candidate("cert_longer", ("A.Example.com", "b.example.com"), 0, 3000)
WILD = Candidate("cert_wild", ("*.example.com",), 0, 9000)
ENDED = Candidate("cert_ended", ("a.example.com",), 0, NOW)
LATER = Candidate("cert_later", ("a.example.com",), NOW + 1, 9000)
OTHER = Candidate("cert_other", ("other.example.net",), 0, 9000)
ALL = (EXACT, LONGER, WILD, ENDED, LATER, OTHER)


@pytest.mark.parametrize(
    ("host", "candidates", "wanted", "chosen"),
    [
        ("a.example.com", ALL, "cert_other", "cert_other"),
        ("a.example.com", ALL, "cert_wild", "cert_wild"),
        ("a.example.com", ALL, "cert_ended", "cert_longer"),
        ("a.example.com", ALL, "cert_later", "cert_longer"),
        ("a.example.com", ALL, "cert_deleted", "cert_longer"),
        ("a.example.com", ALL, "", "cert_longer"),
        ("a.example.com", (EXACT, WILD), "", "cert_exact"),
        ("a.example.com", (WILD, ENDED, LATER), "", "cert_wild"),
        ("*.example.com", ALL, "", "cert_wild"),
        ("*.example.com", (EXACT, LONGER), "", OPERATOR),
        ("x.a.example.com", ALL, "", OPERATOR),
        ("example.com", ALL, "", OPERATOR),
        ("a.example.com", (ENDED, LATER, OTHER), "", OPERATOR),
        ("a.example.com", (), "", OPERATOR),
    ],
)
def test_the_best_certificate_is_chosen(host: str, candidates: tuple[Candidate, ...], wanted: str, chosen: str) -> None:
    for order in (candidates, tuple(reversed(candidates))):
        assert choose(host, order, NOW, wanted=wanted) == chosen
        elsewhere = choose(host, order, NOW, wanted=wanted, is_below=False)
        assert elsewhere == ("" if chosen == OPERATOR else chosen)
