"""Ids, names and a time that the tests of plans share."""

from datetime import UTC, datetime

from chalicelib.model.tunnels.gateways import Gateway

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B = "acct_a", "acct_b"
GATEWAY = Gateway("gw-1", "192.0.2.1", 4433)
GROUP, ANSWER, EDGE = "bkdtg_1", "bkdhr_1", "edghts_1"
HOST = "a.tunnels.localhost"
