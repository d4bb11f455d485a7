"""A certificate is replaced while clients send requests over connections that stay open."""

import subprocess
from collections import Counter

import pytest

from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, until
from tests.live.edge.test_isolation import read_certificate_name

pytestmark = needs_envoy


@pytest.mark.needs("curl")
def test_a_rotation_loses_no_request_over_http_2(edge: Edge, origin: int) -> None:
    """New connections get the new certificate. Open ones go on."""
    edge.upload("cert_0", "acct_A", "rotated.tunnels.localhost")
    edge.ssh(edge.key("acct_A"), "-R", f"rotated:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("rotated", "--insecure") == "200")
    command = ["curl", "-sS", "--insecure", "--http2", "--rate", "100/s", *edge.resolved("rotated"), "-o", "/dev/null"]
    command += ["-w", "%{http_code} %{http_version} %{exitcode}\n%{stderr}%{num_connects}\n"]
    client = subprocess.Popen(
        [*command, edge.url("rotated", "/?[1-800]")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for number in range(1, 4):
        edge.upload(f"cert_{number}", "acct_A", "rotated.tunnels.localhost")
        until(lambda number=number: read_certificate_name(edge, "rotated") == f"cert_{number}")  # type: ignore[misc]
        edge.store.remove_certificate("acct_A", f"cert_{number - 1}")
    answers, connects = client.communicate(timeout=100)
    assert Counter(answers.splitlines()) == {"200 2 0": 800}
    assert sum(map(int, connects.split())) == 1
