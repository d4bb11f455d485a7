"""What a program reads from the subsystem `events` of a connection."""

import json
import re
from typing import Any

import pytest

from edge.ssh import forwarding
from edge.store.records import Grant
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, Key, Ssh, running, until


def read(edge: Edge, key: Key, *arguments: str) -> Ssh:
    """Start a client that opens tunnels and prints the events of its connection."""
    return edge.ssh(key, *arguments, "-s", terminal="-T", command=["events"])


def events(client: Ssh) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.lines if line.startswith("{")]


def wait_for(client: Ssh, kind: str) -> dict[str, Any]:
    """Return the first event of a kind."""
    until(lambda: any(event["event"] == kind for event in events(client)))
    return next(event for event in events(client) if event["event"] == kind)


def test_a_tunnel_that_is_opened_is_an_event_with_its_address(edge: Edge) -> None:
    edge.store.reserve_name("acct_A", "kept.tunnels.localhost")
    client = read(edge, edge.key("acct_A"), "-R", "kept:80:localhost:1", "-R", "loose:443:localhost:1")

    wait_for(client, "notice")
    (reserved, _), (loose, _) = sorted(edge.store.tunnels(), key=lambda pair: pair[0].name)
    assert events(client) == [
        {"event": "opened", "id": reserved.id, "url": edge.url("kept", ""), "proto": "https", "reserved": True},
        {
            "event": "opened",
            "id": loose.id,
            "url": f"tls://loose.tunnels.localhost:{edge.settings.edge_port}",
            "proto": "tls",
            "reserved": False,
        },
        {"event": "notice", "message": forwarding.advise_reservation("loose.tunnels.localhost")},
    ]


@pytest.mark.parametrize(
    ("acl", "forward", "code", "final"),
    [
        ((), "a_b:80", "invalid_request", True),
        (("bind:mine.tunnels.localhost",), "other:80", "not_permitted", True),
        ((), "taken:80", "name_taken", False),
    ],
)
def test_a_refusal_is_an_event_with_its_code(
    edge: Edge, acl: tuple[str, ...], forward: str, code: str, final: bool
) -> None:
    edge.store.reserve_name("acct_B", "taken.tunnels.localhost")
    client = edge.ssh(edge.key("acct_A", *acl), "-R", f"{forward}:localhost:1")
    assert client.wait() == 1
    credential = Grant("acct_A", "sshcr_[^ ]+", ()).credential

    event = wait_for(read(edge, edge.key("acct_A", *acl), "-R", f"{forward}:localhost:1"), "refused")

    message = event.pop("message")
    assert event == {"event": "refused", "code": code, "final": final}
    assert re.sub(credential, "", message) == re.sub(credential, "", client.lines[0])


def test_the_end_of_a_tunnel_is_an_event_and_the_stream_goes_on(edge: Edge) -> None:
    client = read(edge, edge.key("acct_A"), "-R", "mybank:80:localhost:1")
    opened_event = wait_for(client, "opened")
    edge.store.ban("*bank*")

    ended_event = wait_for(client, "ended")

    edge.store.ban()
    message = f"{edge.url('mybank', '')} has ended: the operator has banned its name."
    assert ended_event == {"event": "ended", "id": opened_event["id"], "message": message}
    assert not client.is_over


def test_a_client_without_a_tunnel_is_disconnected_in_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("edge"), with_envoy=False, tunnel_timeout=1) as edge:
        client = read(edge, edge.key("acct_A"))

        assert client.wait(within=5) == 255


@needs_envoy
def test_requests_are_events_without_their_queries(edge: Edge, origin: int) -> None:
    client = read(edge, edge.key("acct_A"), "-R", f"asked:80:127.0.0.1:{origin}", "-R", "silent:80:127.0.0.1:1")
    until(lambda: edge.status("asked") == "200")
    until(lambda: edge.status("silent") == "502")
    edge.status("asked", path="/looked?secret=1")

    until(lambda: any(event.get("path") == "/looked" for event in events(client)))
    requests = [event for event in events(client) if event["event"] == "request"]
    looked = next(request for request in requests if request["path"] == "/looked")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", looked.pop("at"))
    assert 0 <= looked.pop("ms") < 10_000
    assert looked == {
        "event": "request",
        "client": "127.0.0.1",
        "method": "GET",
        "path": "/looked",
        "status": 200,
    }
    assert {request["status"] for request in requests if request["path"] == "/"} == {200, None}
    assert not [line for line in client.lines if "secret" in line]
