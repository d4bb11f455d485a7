"""Clients that send sequential requests over persistent connections.

autocannon measures rates, in its own process. It reports times only in whole milliseconds, so they are measured here.
"""

import http.client
import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from bench.engines import NODE_MODULES
from infra import CommandError
from infra.local.cloud import HOST

_LOOPBACK = Path(__file__).with_name("loopback.lua")
_WRK_OUTPUT = re.compile(r"(\d+) requests in ([\d.]+)s")


def measure(
    base_url: str,
    *,
    path: str,
    headers: Mapping[str, str],
    clients: int,
    seconds: int,
    body: Any = None,
    status: int = 200,
    reconnect: bool = False,
    threads: int = 1,
) -> tuple[int, float]:
    """Return the number of answered requests and the seconds. Requests with a body are POSTs, others GETs.

    With `reconnect` each request has its own connection. autocannon reports no status then, so a second of requests
    over persistent connections follows. Raises RuntimeError if a request fails or has another status.
    """
    command = ["node", str(NODE_MODULES / "autocannon" / "autocannon.js"), "--json", "--no-progress"]
    command += ["--connections", str(clients), "--duration", str(seconds), "--timeout", "30"]
    for name, value in headers.items():
        command += ["--headers", f"{name}={value}"]
    if "Host" in headers:
        command += ["--servername", headers["Host"]]
    if threads > 1:
        command += ["--workers", str(min(threads, clients))]
    if reconnect:
        command += ["--reconnectRate", "1"]
    if body is not None:
        command += ["--method", "POST", "--body", json.dumps(body)]
    done = subprocess.run([*command, base_url + path], check=True, capture_output=True, text=True)
    report = json.loads(done.stdout)
    statuses = set(report["statusCodeStats"])
    if report["errors"] or statuses != (set() if reconnect else {str(status)}):
        raise RuntimeError(f"{path} answered with {statuses}, and {report['errors']} errors")
    if reconnect:
        measure(base_url, path=path, headers=headers, clients=1, seconds=1, body=body, status=status)
    # Only this counter includes an answer after which autocannon closes the connection.
    return report["requests"]["sent" if reconnect else "total"], report["duration"]


def measure_persistent(
    base_url: str, *, path: str, headers: Mapping[str, str], clients: int, seconds: int, threads: int
) -> tuple[int, float]:
    """Return the number of answered GETs over persistent connections and the seconds, by wrk.

    It uses a tenth of the CPU of autocannon, which would limit fast servers. A header `Host` is also the TLS server
    name. Raises RuntimeError if a request fails.
    """
    address = urlsplit(base_url)
    if "Host" in headers:
        base_url = f"{address.scheme}://{headers['Host']}:{address.port}"
    command = ["wrk", "-t", str(min(threads, clients)), "-c", str(clients), "-d", f"{seconds}s", "--timeout", "30s"]
    command += ["-s", str(_LOOPBACK)]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    try:
        output = subprocess.run([*command, base_url + path], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CommandError("The load on the live edge is made by wrk: install it (Debian: wrk).") from None
    if "Non-2xx" in output or "Socket errors" in output or not (match := _WRK_OUTPUT.search(output)):
        raise RuntimeError(f"{path}: {output}")
    return int(match[1]), float(match[2])


def measure_downloads(base_url: str, *, path: str, clients: int, count: int) -> tuple[int, float]:
    """Return the number of GETs over persistent connections and the seconds, by curl.

    The URL's host is the TLS server name. Any certificate is accepted.
    """
    command = [
        "curl",
        "-fsSk",
        "--no-progress-meter",
        "--parallel",
        "--parallel-max",
        str(clients),
        "--connect-to",
        f"::{HOST}:",
        "-o",
        os.devnull,
    ]
    began = time.perf_counter()
    subprocess.run([*command, f"{base_url}{path}?[1-{count}]"], check=True)
    return count, time.perf_counter() - began


def rate(base_url: str, **request: Any) -> float:
    """Return requests per second, with the parameters of `measure`."""
    count, seconds = measure(base_url, **request)
    return count / seconds


def p50(base_url: str, *, path: str, headers: Mapping[str, str], count: int, body: Any = None) -> float:
    """Return the median seconds of `count` sequential requests by one client."""
    connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=30)
    text = None if body is None else json.dumps(body)
    taken = []
    for _ in range(count):
        before = time.perf_counter()
        connection.request("GET" if body is None else "POST", path, text, dict(headers))
        answer = connection.getresponse()
        answer.read()
        taken.append(time.perf_counter() - before)
        if answer.status >= 300:
            raise RuntimeError(f"{path} answered with {answer.status}")
    connection.close()
    return median(taken)
