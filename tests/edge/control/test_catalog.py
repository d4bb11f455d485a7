"""How resources are encoded."""

import pytest
from envoy.config.listener.v3.listener_pb2 import Listener
from google.protobuf import json_format

from edge.control import catalog
from edge.process.settings import Settings
from edge.traffic import listeners


@pytest.mark.parametrize("certificate", ["cert_0123456789", "cert_9876543210", "cert_other"])
def test_a_certificates_listener_is_encoded_as_any_other(certificate: str) -> None:
    resource = listeners.of_certificate(certificate, Settings())
    found = Listener.FromString(catalog.encoded(resource).value)
    assert found == json_format.ParseDict(resource.body, Listener())
    assert found.name == f"certificate/{certificate}"
