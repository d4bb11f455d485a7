"""Envoy's errors, without what other accounts may not see."""

import pytest

from edge.control import rejections

OWN, OTHER = f"cert_{1:027}", f"cert_{2:027}"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("It is too long.", "It is too long."),
        (f"Error adding/updating listener(s) edge/{OWN}: no", "no"),
        (f"{OWN} and {OTHER}", f"{OWN} and …"),
        ("cannot read /srv/edge/key.pem", "cannot read a file"),
        ("two\n  lines\x00", "two lines"),
        ("x" * 1000, "x" * 400),
    ],
)
def test_an_error_has_no_file_names_and_only_own_ids(sentence: str, shown: str) -> None:
    assert rejections.redact(sentence, [OWN]) == shown
