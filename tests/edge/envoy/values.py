"""Settings and values that several tests of Envoy's resources share."""

from dataclasses import replace
from pathlib import Path

from edge.process.settings import Limits, Settings

SETTINGS = Settings(directory=Path("/edge"), edge_port=8443, http_port=8080, limits=Limits(max_socket_kib=1))


TYPE = "type.googleapis.com/envoy"


SOCKETS = [
    {"level": "1", "name": "8", "int_value": "1024"},
    {"level": "6", "name": "25", "int_value": "1024"},
    {"level": "1", "name": "9", "int_value": "1"},
    {"level": "6", "name": "4", "int_value": "60"},
    {"level": "6", "name": "5", "int_value": "20"},
    {"level": "6", "name": "6", "int_value": "3"},
]


BELIEVING = replace(SETTINGS, proxy_protocol_from=("192.0.2.0/24", "2001:db8::1"))


RANGES = [{"address_prefix": "192.0.2.0", "prefix_len": 24}, {"address_prefix": "2001:db8::1", "prefix_len": 128}]
