"""The operator's command that replaces the keys of the sign-in service."""

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.sign_in import signing_keys
from tests.transports import Client


def test_all_keys_are_replaced_at_once_only_with_now(admin: Client) -> None:
    signing_keys.create("64", 100, {"kty": "EC"}, b"sealed")
    with pytest.raises(SystemExit):
        operator.main(["edge", "rotate-sign-in-keys"])
    assert len(signing_keys.read()) == 1
    operator.main(["edge", "rotate-sign-in-keys", "--now"])
    assert signing_keys.read() == []
