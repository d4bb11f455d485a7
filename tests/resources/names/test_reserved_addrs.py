"""Reserved addresses: ports, until none is left."""

import pytest

from tests.names import D, assert_taken
from tests.refusals import assert_refused
from tests.transports import Client

pytestmark = pytest.mark.usefixtures("tunnel_domain")


def test_ports_are_reserved_until_none_is_left(
    admin: Client, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCP_PORTS", "20000-20002")
    addresses = [admin.create("/reserved_addrs", {"region": "us"}) for _ in range(3)]
    assert sorted(address["addr"] for address in addresses) == [f"{D}:2000{last}" for last in range(3)]
    assert addresses[0] == {
        "id": addresses[0]["id"],
        "uri": f"http://localhost/reserved_addrs/{addresses[0]['id']}",
        "created_at": addresses[0]["created_at"],
        "description": "",
        "metadata": "",
        "addr": addresses[0]["addr"],
        "region": "",
    }
    none = "All ports of TCP_PORTS are reserved: delete a reserved address, or ask the operator for more."
    assert_refused(stranger.post("/reserved_addrs", {}), 409, "conflict", none, {})
    assert_taken(stranger.post("/edges/tcp", {"hostports": [addresses[0]["addr"]]}))
    admin.create("/edges/tcp", {"hostports": [addresses[0]["addr"]]})
    admin.delete(f"/reserved_addrs/{addresses[1]['id']}")
    assert_refused(stranger.post("/reserved_addrs", {}), 409, "conflict", none, {})
    assert admin.create("/reserved_addrs", {})["addr"] == addresses[1]["addr"]
