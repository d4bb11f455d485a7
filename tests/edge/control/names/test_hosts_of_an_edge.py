"""A loaded name of an edge, after changes that concern another host of the edge."""

import asyncio

from chalicelib.model.serving.account_view import Service
from chalicelib.storage.records import change_log
from edge.process.settings import Limits
from tests.edge.control.names.random_host import PORTS, D, Host, Surroundings, find_differences
from tests.proving import prove
from tests.transports import Client


def test_a_name_is_planned_again_when_another_account_proves_another_host(admin: Client, stranger: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"one.{D}:443", "www.shop.example:443"]})["id"]
    with asyncio.Runner() as runner:
        host = Host(Limits(), Service(D, PORTS, frozenset({f"*.{D}"})), Surroundings(runner))
        prove(admin.create("/reserved_domains", {"domain": "*.shop.example"})["id"])
        host.read_blocks()
        host.load(f"one.{D}")
        before = {change.id for change in change_log.read_since(0)}
        prove(stranger.create("/reserved_domains", {"domain": "www.shop.example"})["id"])
        host.apply({key for change in change_log.read_since(0) if change.id not in before for key in change.item_keys})
        assert find_differences(host, [edge]) == []
