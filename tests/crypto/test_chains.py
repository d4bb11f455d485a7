"""Chains of certificates, leaf first."""

from chalicelib.crypto import chains, private_keys
from tests import openssl


def test_an_rsa_key_below_2048_bits_may_stand_further_up_in_a_chain() -> None:
    chain = openssl.chain("rsa-2048", "rsa-1024", "rsa-1024")
    assert chains.read(chain.certificate, 2**16).pem == chain.certificate
    assert private_keys.read(chain.key).public_key() == chains.read(chain.certificate, 2**16).leaf.public_key
