"""Clients that send one request after the other over connections they keep.

Rates are autocannon's, in a process of its own. It tells times in whole milliseconds only: those are taken here.
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
_SAID = re.compile(r"(\d+) requests in ([\d.]+)s")  # by wrk


def answered(
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
    """Return how many requests were answered, GETs or POSTs of the body, and in how many seconds.

    With `reconnect` each has a connection of its own, and a second of requests on kept ones follows, since only theirs
    have a status that is told. Raises RuntimeError when a request fails or has another status.
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
    said = json.loads(done.stdout)
    statuses = set(said["statusCodeStats"])
    if said["errors"] or statuses != (set() if reconnect else {str(status)}):
        raise RuntimeError(f"{path} answered with {statuses}, and {said['errors']} errors")
    if reconnect:
        answered(base_url, path=path, headers=headers, clients=1, seconds=1, body=body, status=status)
    # An answer after which autocannon itself ends the connection is in none of its other counts.
    return said["requests"]["sent" if reconnect else "total"], said["duration"]


def kept(
    base_url: str, *, path: str, headers: Mapping[str, str], clients: int, seconds: int, threads: int
) -> tuple[int, float]:
    """Return how many GETs over kept connections were answered, and in how many seconds: by wrk.

    It costs a tenth of autocannon, which measures itself where the server is fast. A `Host` among the headers is also
    the name that TLS is asked for. Raises RuntimeError when one fails.
    """
    address = urlsplit(base_url)
    if "Host" in headers:
        base_url = f"{address.scheme}://{headers['Host']}:{address.port}"
    command = ["wrk", "-t", str(min(threads, clients)), "-c", str(clients), "-d", f"{seconds}s", "--timeout", "30s"]
    command += ["-s", str(_LOOPBACK)]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    try:
        said = subprocess.run([*command, base_url + path], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CommandError("The load on the live edge is wrk's: install it (Debian: wrk).") from None
    if "Non-2xx" in said or "Socket errors" in said or not (found := _SAID.search(said)):
        raise RuntimeError(f"{path}: {said}")
    return int(found[1]), float(found[2])


def fetched(base_url: str, *, path: str, clients: int, count: int) -> tuple[int, float]:
    """Return how many GETs over kept connections were answered, and in how many seconds, to a curl on this machine.

    The URL's host is the server name that is asked for, with any certificate.
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
    """Return requests per second; the request is that of `answered`."""
    count, seconds = answered(base_url, **request)
    return count / seconds


def p50(base_url: str, *, path: str, headers: Mapping[str, str], count: int, body: Any = None) -> float:
    """Return the median of the seconds that so many requests of one client take, one after the other."""
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
