"""Parsers of environment variables. The settings' tests have their sentences."""

import pytest

from edge.process.variables import texts
from edge.process.variables.texts import InvalidText


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("10.0.0.5:4440", ("10.0.0.5", 4440)),
        ("[FD00::1]:4440", ("fd00::1", 4440)),
        ("sign-in.edge.internal:65535", ("sign-in.edge.internal", 65535)),
        ("a:1", ("a", 1)),
    ],
)
def test_a_host_with_a_port(text: str, peer: tuple[str, int]) -> None:
    assert texts.peer("SIGN_IN_HOSTS", text) == peer


@pytest.mark.parametrize("text", ["", "a", ":1", "a:", "a:x", "-a:1", "a.:1", "a/b:1", "a@b:1", "a\n:1", "a:65536"])
def test_any_other_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidText):
        texts.peer("SIGN_IN_HOSTS", text)
