"""Texts that browsers carry for the sign-in service."""

from edge.sign_in.sealed import sealing

KEYS = {"one": b"1" * 32, "two": b"2" * 32}


def test_a_sealed_text_opens_for_its_purpose_only() -> None:
    sealed = sealing.seal(b"plain", "one", KEYS["one"], b"state")
    assert sealing.unseal(sealed, KEYS, b"state") == b"plain"
    assert sealing.unseal(sealed, KEYS, b"confirmations") is None
    assert sealing.seal(b"plain", "one", KEYS["one"], b"state") != sealed


def test_malformed_texts_do_not_open() -> None:
    sealed = sealing.seal(b"plain", "one", KEYS["one"], b"state")
    for text in ("", "one", "one.", "one.A", "one.ä", sealed[:-4], sealed.replace("one.", "two."), f"x{sealed}"):
        assert sealing.unseal(text, KEYS, b"state") is None, text
