"""Certificates, lists of them and revocations over HTTP, compared with OpenBao's PKI engine.

Unlike OpenBao's SSH engine, that engine stores, lists and revokes certificates.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psutil

from bench import openbao, requests, results, servers, signing
from bench.engines import Setting
from bench.results import Result, Row
from bench.servers import Server

ROUNDS, SIGNED, LISTED, REVOKED = 3, 120, 30, 60  # requests in a round
_PATH = "/ssh_user_certificates"
_PEER = "OpenBao's PKI engine, in memory"

Request = tuple[str, str, Mapping[str, Any] | None]  # method, path, body
Cost = tuple[float, float]  # the server's CPU seconds per request, and the client's median latency in seconds


@dataclass(frozen=True)
class Issuer:
    """A server that issues certificates, and its requests. `id` extracts the id from the answer to `sign`."""

    server: Server
    headers: Mapping[str, str]
    sign: Request
    listing: Request
    revoke: Callable[[str], Request]
    id: Callable[[Any], str]

    def costs(self) -> list[Cost]:
        """Return the costs of a certificate, a list of 100 and a revocation."""
        ids = list[str]()
        signed = self._cost([self.sign] * SIGNED, lambda answer: ids.append(self.id(answer)))
        listed = self._cost([self.listing] * LISTED)
        return [signed, listed, self._cost([self.revoke(id) for id in ids[:REVOKED]])]

    def _cost(self, requests: Iterable[Request], on_answer: Callable[[Any], None] = lambda _: None) -> Cost:
        """Return the mean cost of one client's requests. Raises RuntimeError if one is refused."""
        process, taken = psutil.Process(self.server.pid), list[float]()
        connection = http.client.HTTPConnection(urlsplit(self.server.url).netloc, timeout=30)
        before = sum(process.cpu_times()[:2])
        for method, path, body in requests:
            began = time.perf_counter()
            connection.request(method, path, None if body is None else json.dumps(body), dict(self.headers))
            answer = connection.getresponse()
            text = answer.read()
            taken.append(time.perf_counter() - began)
            if answer.status >= 300:
                raise RuntimeError(f"{path} answered with {answer.status}")
            on_answer(json.loads(text))
        connection.close()
        return (sum(process.cpu_times()[:2]) - before) / len(taken), median(taken)


def measure(setting: Setting) -> Result:
    names = ("a certificate that is kept", "a list of 100 certificates", "a revocation")
    if not openbao.is_installed():
        return Result([Row(name, "", "not measured: OpenBao is not installed", None) for name in names])
    with _ours(setting) as ours, _peer() as peer:
        rounds = [[issuer.costs() for issuer in (ours, peer)] for _ in range(ROUNDS)]
    rows = []
    for index, name in enumerate(names):
        for which, measured in enumerate(("CPU", "p50, 1 client")):
            mine, theirs = (median(each[side][index][which] for each in rounds) for side in (0, 1))
            rows.append(results.reported(f"{name}, {measured}: {_PEER}", mine, theirs, results.ms))
    return Result(rows)


@contextmanager
def _ours(setting: Setting) -> Iterator[Issuer]:
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    revocations = f"/ssh_certificate_authorities/{authority}/revocations"
    with servers.ours() as server:
        yield Issuer(
            server,
            requests.headers(setting.token),
            ("POST", _PATH, signing.request(authority)),
            ("GET", f"{_PATH}?limit=100", None),
            lambda id: ("POST", revocations, {"ssh_user_certificate_id": id}),
            lambda answer: str(answer["id"]),
        )


@contextmanager
def _peer() -> Iterator[Issuer]:
    with openbao.started() as (server, headers):
        yield Issuer(
            server,
            headers,
            ("POST", openbao.ISSUE, {"csr": signing.csr()}),
            ("GET", f"{openbao.LIST}&limit=100", None),
            lambda serial: ("POST", openbao.REVOKE, {"serial_number": serial}),
            lambda answer: str(answer["data"]["serial_number"]),
        )
