"""PEM: blocks with any text around them, and blocks that are incomplete or damaged."""

import re

import pytest

from chalicelib.crypto import pem
from chalicelib.crypto.pem import Block

LONG = bytes(range(100))
CUT_OFF = "must be complete PEM: each BEGIN line needs its END line"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r", " \n"])
def test_a_block_is_read_as_it_was_written(ending: str) -> None:
    text = pem.encode("CERTIFICATE", LONG) + "between\n" + pem.encode("EC PRIVATE KEY", b"k")
    blocks = pem.blocks(f"before\n{text}after".replace("\n", ending))
    assert [(block.label, block.decode()) for block in blocks] == [("CERTIFICATE", LONG), ("EC PRIVATE KEY", b"k")]
    assert [len(line) for line in pem.encode("A", LONG).splitlines()] == [17, 64, 64, 8, 15]


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN A-----\nAAAA",
        "AAAA\n-----END A-----",
        "-----BEGIN A-----\nAAAA\n-----END B-----",
        "-----BEGIN A-----\n-----BEGIN A-----\n-----END A-----",
        "-----END A-----\n-----BEGIN A-----",
        "-----BEGIN a-----\nAAAA\n-----END a-----",
        f"{pem.encode('A', LONG)}-----BEGIN",
    ],
)
def test_an_incomplete_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(CUT_OFF)}"):
        pem.blocks(text)


@pytest.mark.parametrize("body", ["A", "AAA?", "AA=A", "é"])
def test_a_damaged_block_is_refused(body: str) -> None:
    (block,) = pem.blocks(f"-----BEGIN A-----\n{body}\n-----END A-----")
    with pytest.raises(ValueError, match=r"^must be intact PEM: "):
        block.decode()


def test_no_block_is_in_a_text_without_boundaries() -> None:
    assert pem.blocks("") == pem.blocks("-----\nBEGIN") == []


def test_an_encrypted_key_is_recognised_and_no_block_shows_its_body() -> None:
    assert Block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\n").is_encrypted
    assert not Block("RSA PRIVATE KEY", "ENCRYPTED").is_encrypted
    assert repr(Block("A", "body")) == "Block(label='A')"
