"""The key pair of sign-in services for the link."""

import pytest

from chalicelib.model.sign_in import link_pairs
from chalicelib.model.sign_in.link_pairs import LinkPair
from chalicelib.model.tenants import sealed_values
from chalicelib.storage.client import dynamodb
from chalicelib.storage.records.decoding import MalformedRecord
from edge.link import authority
from edge.store import link_authority

PAIR = LinkPair(chain="chain", authority="authority", made_at=1)


def test_a_pair_is_read_as_it_was_written_and_only_its_key_is_sealed() -> None:
    assert link_pairs.read() is None
    for key in (b"first", b"second"):
        link_pairs.write(PAIR, key)
    stored_pair = link_pairs.read()
    assert stored_pair
    assert (stored_pair.pair, stored_pair.open_key()) == (PAIR, b"second")
    record = dynamodb.get(link_pairs.SCOPE, link_pairs.ID)
    assert record
    assert b"second" not in repr(record).encode()
    assert [sealed_value.context for sealed_value in sealed_values.find(record)] == [
        {"account": "edge", "resource": "sign-in-link"}
    ]


def test_a_pair_is_renewed_after_a_day_or_with_another_authority() -> None:
    first, other = authority.make("Link"), authority.make("Link")

    def renew(issuer: authority.Authority) -> LinkPair:
        link_authority.renew_sign_in_pair(issuer)
        stored_pair = link_pairs.read()
        assert stored_pair
        return stored_pair.pair

    pair = renew(first)
    assert pair.authority == first.pem
    assert renew(first) == pair
    link_pairs.write(LinkPair(chain=pair.chain, authority=first.pem, made_at=pair.made_at - 24 * 3600), b"key")
    assert renew(first).chain != pair.chain
    assert renew(other).authority == other.pem


def test_a_malformed_pair_is_replaced() -> None:
    link_pairs.write(LinkPair(chain=1, authority="a", made_at=1), b"key")  # type: ignore[arg-type]
    with pytest.raises(MalformedRecord):
        link_pairs.read()
    link_authority.renew_sign_in_pair(authority.make("Link"))
    assert link_pairs.read()
