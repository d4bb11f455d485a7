"""A changed route of an edge with a tunnel, from the request to the resources that Envoy receives."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import Service
from chalicelib.model.tunnels import gateways
from chalicelib.model.tunnels.gateways import Gateway
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.name_builder import EnvoyNames
from edge.control.names.name_resolver import NameResolver
from edge.link.authority import KeyPair
from edge.process.settings import Settings
from edge.serving.order import NameResources
from edge.store.records import Grant, Opening
from edge.store.table import Store
from tests.readability.crossings import Trace, trace_calls
from tests.transports import Client

_DOMAIN = "tunnels.localhost"
_NAME = f"measured.{_DOMAIN}"
_PAIR = KeyPair("CHAIN", "KEY")


@dataclass
class EdgeChange:
    """The route, and what an edge host knows of its account before the change."""

    client: Client
    route: str
    resolver: NameResolver
    records: AccountRecords
    builder: EnvoyNames

    @staticmethod
    def of(client: Client) -> "EdgeChange":
        """Return a loaded name with one route, whose tunnel is online."""
        table, gateway = Store("local", _DOMAIN), Gateway("gw-1", "192.0.2.1", 4433)
        gateways.announce(gateway, lease=600)
        group = client.create("/backends/tunnel_group", {"labels": {"app": "web"}})["id"]
        grant = Grant(client.account, "sshcr_1", ())
        table.open(Opening(grant, "gw-1", "ts_1", "192.0.2.9", labels=(("app", "web"),)), most=100)
        edge = client.create("/edges/https", {"hostports": [f"{_NAME}:443"]})["id"]
        route = {"match_type": "path_prefix", "match": "/", "backend": {"backend_id": group}}
        path = f"/edges/https/{edge}/routes"
        route_path = f"{path}/{client.create(path, route)['id']}"
        resolver = NameResolver(_DOMAIN)
        resolver.refresh_gateways()
        service = Service(_DOMAIN, range(20000, 20100), frozenset({_DOMAIN, f"*.{_DOMAIN}"}))
        builder = EnvoyNames(Settings(), "PEM", lambda: service, lambda: _PAIR, lambda _: None)
        return EdgeChange(client, route_path, resolver, resolver.read(client.account, _NAME, None), builder)

    def request(self, seconds: int) -> frozenset[ItemKey]:
        """Change the circuit breaker of the route, and return the changed records from the log."""
        start = time.time()
        self.put(seconds)
        return frozenset(item_key for entry in change_log.read_since(start - 0.001) for item_key in entry.item_keys)

    def put(self, seconds: int) -> None:
        self.client.put(f"{self.route}/circuit_breaker", {"tripped_duration": seconds})

    def build(self, records: AccountRecords) -> NameResources:
        """Return the resources of the name."""
        plan = self.builder.plan(_NAME, records, datetime.now(UTC))
        return self.builder.build(plan, records, None)

    def read(self, item_keys: frozenset[ItemKey]) -> AccountRecords:
        return self.resolver.read_changed(self.records, item_keys)


@dataclass(frozen=True)
class Traces:
    """The calls of the request, of reading the records that it changed, and of building the resources from them."""

    request: Trace
    read: Trace
    build: Trace

    @property
    def files(self) -> int:
        """Return the number of files that the change enters, from the API to Envoy."""
        return len({*self.request.calls, *self.read.calls, *self.build.calls})


def trace(client: Client) -> Traces:
    """Return the calls of a change. Each step has run once before."""
    change = EdgeChange.of(client)
    first = change.build(change.read(change.request(20)))
    item_keys, records, resources = change.request(30), list[AccountRecords](), list[NameResources]()
    read = trace_calls(lambda: records.append(change.read(item_keys)), "chalicelib", "edge")
    build = trace_calls(lambda: resources.append(change.build(records[0])), "chalicelib", "edge")
    assert resources[0] != first
    return Traces(trace_calls(lambda: change.put(40), "chalicelib"), read, build)
