"""The keys of ACME accounts: one for each directory, sealed, and the same for all issuers."""

from functools import partial

from chalicelib.model.tls import acme_accounts
from tests.conftest import stored

FIRST, SECOND = "https://ca.example/dir", "https://staging.ca.example/dir"


def test_a_key_is_created_once_for_each_directory() -> None:
    requests = ((FIRST, b"one"), (FIRST, b"two"), (SECOND, b"three"), (FIRST, b"four"))
    keys = [acme_accounts.find_or_create(directory, partial(bytes, key)) for directory, key in requests]
    assert keys == [b"one", b"one", b"three", b"one"]


def test_an_issuer_that_is_overtaken_uses_the_key_of_the_first() -> None:
    def create_second_key() -> bytes:
        assert acme_accounts.find_or_create(FIRST, lambda: b"first") == b"first"
        return b"second"

    assert acme_accounts.find_or_create(FIRST, create_second_key) == b"first"


def test_a_key_is_stored_sealed() -> None:
    acme_accounts.find_or_create(FIRST, lambda: b"a key in the clear")
    (record,) = (record for records in stored().values() for record in records.values())
    assert record["body"] == {"M": {"directory": {"S": FIRST}}}
    assert set(record["sealed"]["M"]) == {"private_key"}
    assert "a key in the clear" not in str(record)
