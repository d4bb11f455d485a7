"""Clients that send one request after the other over connections they keep: autocannon, in a process of its own."""

import json
import subprocess
from typing import Any

from bench import requests
from bench.engines import NODE_MODULES


def rate(
    base_url: str, *, path: str, clients: int, seconds: int, token: str = "", body: Any = None, status: int = 200
) -> float:
    """Return requests per second: GETs, or POSTs of the body. Raises RuntimeError when one has another status."""
    sent = {name: value for name, value in requests.headers(token).items() if token or name != "Authorization"}
    command = ["node", str(NODE_MODULES / "autocannon" / "autocannon.js"), "--json", "--no-progress"]
    command += ["--connections", str(clients), "--duration", str(seconds), "--timeout", "30"]
    for name, value in sent.items():
        command += ["--headers", f"{name}={value}"]
    if body is not None:
        command += ["--method", "POST", "--body", json.dumps(body)]
    done = subprocess.run([*command, base_url + path], check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    statuses = set(said["statusCodeStats"])
    if said["errors"] or statuses != {str(status)}:
        raise RuntimeError(f"{path} answered with {statuses}, and {said['errors']} errors")
    return float(said["requests"]["total"] / said["duration"])
