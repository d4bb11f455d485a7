"""Which hostports of an edge may be served: below TUNNEL_DOMAIN those whose keys it holds."""

import pytest

from chalicelib.model.base import kinds
from chalicelib.model.names import base_names
from chalicelib.storage.records import items
from chalicelib.storage.records.items import Item

D = "tunnels.localhost"
TCP, HTTPS = f"edgtcp_{27 * '0'}", f"edghts_{27 * '0'}"


@pytest.mark.parametrize(
    ("id", "hostport", "reserved_names", "expected"),
    [
        (HTTPS, f"shop.{D}:443", [f"shop.{D}"], True),
        (HTTPS, f"x.shop.{D}:443", [f"shop.{D}"], True),
        (HTTPS, f"*.shop.{D}:443", [f"shop.{D}"], True),
        (HTTPS, f"shop.{D}:443", [], False),
        (HTTPS, f"shop.{D}:443", [f"other.{D}"], False),
        (HTTPS, f"*.{D}:443", [], False),
        (HTTPS, f"{D}:443", [], False),
        (HTTPS, "shop.example.com:443", [], True),
        (TCP, f"{D}:20001", [f"{D}:20001"], True),
        (TCP, f"{D}:20001", [], False),
        (TCP, f"db.{D}:20001", [f"db.{D}", f"{D}:20001"], True),
        (TCP, f"db.{D}:20001", [f"db.{D}"], False),
        (TCP, "db.example.com:20001", [], True),
    ],
)
def test_a_hostport_below_the_domain_is_an_edges_by_its_keys(
    id: str, hostport: str, reserved_names: list[str], expected: bool
) -> None:
    keys = tuple(base_names.key(name, field="hostports.0") for name in reserved_names)
    edge = Item(items.scope("acct_1", kinds.identify(id).path), id, {"hostports": [hostport]}, unique_keys=keys)
    assert base_names.has_keys_of(edge, hostport, D) is expected
