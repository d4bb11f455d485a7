"""The three commands of "A leaked API key" in infra/README.md, however much others and the key itself have done."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cloud.buried_events import bury
from tests.cloud.pages import blocks
from tests.conftest import Served
from tests.transports import key_in

GROUPS = "/backends/tunnel_group"


@pytest.mark.needs("bash", "curl", "jq")
def test_a_leaked_key_is_ended_and_all_that_it_did_and_made_is_found(served: Served, tmp_path: Path) -> None:
    api = served.newcomer()
    owner = api.client()
    thief = owner.with_token(owner.create("/api_keys", {"scopes": ["backends:write"]})["token"])
    uris = [thief.create(GROUPS, {"labels": {"made": "by the thief"}})["uri"] for _ in range(2)]
    assert thief.patch(uris[0].removeprefix(api.base_url), {"labels": {"changed": "too"}}).status == 200
    bury(api, thief.token, 125)  # more than one page shows
    owner.create(GROUPS, {})
    bury(api, api.token, 525)  # more than one page picks from

    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(["output() { echo $URL; }; NAME=n", *commands()])],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], "URL": api.base_url}, input=f"{thief.token}\n{api.token}\n",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert "204" in result.stdout.splitlines()[0]
    assert thief.get(GROUPS).status == 401
    events = [json.loads(line) for line in (tmp_path / "leaked.ndjson").read_text().splitlines()]
    assert [event["id"] for event in events] == sorted({event["id"] for event in events}, reverse=True)
    assert {event["actor"]["key_id"] for event in events} == {key_in(thief.token)}
    assert len(events) == 3 + 125
    created = [line.split("\t") for line in result.stdout.splitlines() if "\ttunnel_group_backend.create\t" in line]
    assert [(address, uri) for _, address, _, uri in created] == [("127.0.0.1", uri) for uri in reversed(uris)]


def commands() -> list[str]:
    """Return the three commands; what the access log knows is asked of the cloud."""
    blocks_of_section = blocks("infra/README.md", "A leaked API key")
    assert "aws logs" in blocks_of_section[3]
    return blocks_of_section[:3]
