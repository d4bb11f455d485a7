"""Requests and responses of one stream of discovery."""

from typing import Any

from envoy.service.discovery.v3.discovery_pb2 import DeltaDiscoveryRequest

from edge.envoy.ads.catalog import TYPES, Catalog
from edge.envoy.ads.delta import Stream
from edge.envoy.resources import Key, Kind
from tests.edge.envoy import messages


def build_catalog(*keys: Key) -> Catalog:
    catalog = Catalog(b"key")
    catalog.apply({key: messages.encode(key, {"name": key.name}) for key in keys})
    return catalog


def asks(kind: Kind, *names: str, **more: Any) -> DeltaDiscoveryRequest:
    return DeltaDiscoveryRequest(type_url=TYPES[kind], resource_names_subscribe=names, **more)


def list_responses(stream: Stream) -> list[tuple[str, list[str], list[str]]]:
    """Return the nonces of what is sent, with the names in it and those that are gone."""
    return [
        (response.nonce, [resource.name for resource in response.resources], list(response.removed_resources))
        for response in stream.responses()
    ]


def acks(kind: Kind, nonce: str, error: str = "") -> DeltaDiscoveryRequest:
    request = DeltaDiscoveryRequest(type_url=TYPES[kind], response_nonce=nonce)
    if error:
        request.error_detail.message = error
    return request
