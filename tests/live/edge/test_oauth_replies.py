"""Envoy's own responses at edges with OAuth."""

import contextlib
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib.model.serving import pages
from edge.envoy import http_manager, parts, v3
from edge.envoy.names import managers
from edge.process.envoy_process.envoy_parent import ENVOY_ARGUMENTS
from edge.process.settings import Settings
from tests.edge.envoy import messages
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import ENVOY, free_ports, listens, until

pytestmark = needs_envoy


def test_an_unknown_requirement_is_a_503_that_names_no_route(tmp_path: Path) -> None:
    """A route can arrive before or after the extension resource that has its requirement."""
    requirement = v3.JwtRequirement(allow_missing_or_failed=v3.Empty())
    tokens = v3.JwtAuthentication(requirement_map={"edghtsrt_secret": requirement})
    guard = v3.HttpFilter(name="tokens", typed_config=parts.pack(tokens))
    settings = {"tokens": parts.pack(v3.JwtPerRoute(requirement_name="edghtsrt_gone"))}
    answer = parts.respond("200: open\n")
    route = v3.Route(match=v3.RouteMatch(prefix="/"), direct_response=answer, typed_per_filter_config=settings)
    with serving(tmp_path, guard, route) as url:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(url, timeout=5)
        assert (error.value.code, error.value.read().decode()) == (503, pages.CHANGING)


@contextlib.contextmanager
def serving(folder: Path, guard: v3.HttpFilter, route: v3.Route) -> Iterator[str]:
    """Run an Envoy with the replies of an edge with OAuth, one filter and one route. Yield its URL."""
    (port,) = free_ports(1)
    unpacked = v3.HttpConnectionManager()
    managers.build_names_manager(Settings(), guards=[guard]).typed_config.Unpack(unpacked)
    manager = v3.HttpConnectionManager(
        stat_prefix="test",
        local_reply_config=unpacked.local_reply_config,
        http_filters=[guard, http_manager.ROUTER],
        route_config=v3.RouteConfiguration(virtual_hosts=[v3.VirtualHost(name="all", domains=["*"], routes=[route])]),
    )
    chain = v3.FilterChain(filters=[v3.Filter(name=http_manager.NAME, typed_config=parts.pack(manager))])
    listener: Any = messages.to_json(
        v3.Listener(name="test", address=parts.address("127.0.0.1", port), filter_chains=[chain])
    )
    file = folder / "bootstrap.json"
    file.write_text(json.dumps({"static_resources": {"listeners": [listener]}}))
    command = [str(ENVOY), *ENVOY_ARGUMENTS, "--concurrency", "1"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as envoy:
        try:
            until(lambda: listens(port))
            yield f"http://127.0.0.1:{port}/"
        finally:
            envoy.kill()
