"""Certificates that only an old tool would make: short RSA keys, and what the library warns of on stderr."""

import subprocess
import sys

import pytest

from chalicelib.crypto import authorities, chains, private_keys
from tests import openssl

TOO_SHORT = "must use an RSA key of 2048 to 4096 bits, not 1024"
READ = "import sys; from chalicelib.crypto import {0}; print({0}.read(sys.stdin.read(), 2**16){1}.serial_number)"


def said_on_stderr(program: str, text: str) -> str:
    """Return the stderr of a fresh process that reads the text: a process writes each warning once."""
    process = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, timeout=60)
    return process.stderr


def test_an_rsa_key_below_2048_bits_is_refused_as_key_leaf_and_authority() -> None:
    issued = openssl.issue(kind="rsa-1024")
    for read, text in (
        (private_keys.read, issued.key),
        (lambda text: chains.read(text, 2**16), issued.certificate),
        (lambda text: authorities.read(text, 2**14), issued.certificate),
    ):
        with pytest.raises(ValueError, match="must") as error:
            read(text)
        assert str(error.value) == TOO_SHORT


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_a_serial_number_of_zero_is_read_without_a_warning() -> None:
    issued = openssl.issue(extensions=("basicConstraints=CA:TRUE",), options=("-set_serial", "0"))
    for program in (READ.format("chains", ".leaf"), READ.format("authorities", ".facts")):
        assert said_on_stderr(program, issued.certificate) == ""
    assert chains.read(issued.certificate, 2**16).leaf.serial_number == "00"


def test_a_negative_serial_number_is_refused_without_a_warning() -> None:
    issued = openssl.issue(options=("-set_serial", "-5"))
    program = "import sys, contextlib\nfrom chalicelib.crypto import chains\n"
    program += "with contextlib.suppress(ValueError): chains.read(sys.stdin.read(), 2**16)"
    assert said_on_stderr(program, issued.certificate) == ""


@pytest.mark.filterwarnings("ignore:Attribute's length")  # pytest has filters of its own
def test_a_name_of_more_bytes_than_letters_is_read_without_a_warning() -> None:
    issued = openssl.issue(f"/CN={'ü' * 64}")
    assert chains.read(issued.certificate, 2**16).leaf.subject.common_name == "ü" * 64
    assert said_on_stderr(READ.format("chains", ".leaf"), issued.certificate) == ""


def test_a_key_for_diffie_hellman_is_refused_without_a_warning() -> None:
    program = "import sys, contextlib\nfrom chalicelib.crypto import private_keys\n"
    program += "with contextlib.suppress(ValueError): private_keys.read(sys.stdin.read())"
    assert said_on_stderr(program, openssl.key("dh")) == ""
