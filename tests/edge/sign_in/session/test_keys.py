"""The private keys of the sign-in service."""

import json

import pytest

from chalicelib.model.sign_in import signing_keys
from edge.sign_in.session import keys

pytestmark = pytest.mark.usefixtures("admin")


def test_a_pair_is_made_once_sealed_and_opened() -> None:
    assert [keys.create(100) for _ in range(2)] == [True, False]
    (pair,) = signing_keys.read()
    key = keys.unseal(pair)
    numbers = key.private.private_numbers()
    assert len(key.state_key) == 32
    assert pair.public["kid"] == pair.kid == "64"
    assert "d" not in pair.public  # of the private key
    stored = json.dumps([dict(pair.public), pair.sealed.hex()])
    assert hex(numbers.private_value)[2:] not in stored
    assert key.state_key.hex() not in stored
