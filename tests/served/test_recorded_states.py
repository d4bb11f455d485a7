"""`make run` starts on the state of an earlier version, and everything that it held is there."""

import json
from pathlib import Path

import pytest

from infra.local import terminal
from tests.samples import BODIES
from tests.served import recorded
from tests.served.running import KEY, run

AUTHORITIES = "/ssh_certificate_authorities"


@pytest.mark.parametrize("commit", ["44e6111", "d3f2e57"])
def test_the_state_of_an_earlier_version_is_served_whole(commit: str, tmp_path: Path) -> None:
    local = tmp_path / "local"
    before = recorded.unpack(commit, local)
    assert len(before) >= 15
    token = terminal.read(local / "env")["API_KEY"]
    for _ in range(2):  # the second run reads what the first has changed
        with run(local) as (api, _process):
            client = api.client()
            assert client.token == token
            then = json.loads(json.dumps(before).replace("{base_url}", api.base_url))
            now = {path: client.get(path).json for path in then}
            assert {path: {name: now[path].get(name) for name in body} for path, body in then.items()} == then
            (authority,) = [path for path in then if path.startswith(f"{AUTHORITIES}/")]
            fields = {"ssh_certificate_authority_id": now[authority]["id"], "public_key": KEY}
            client.create("/ssh_user_certificates", fields)  # with the private key that the state's KMS key sealed
            client.create("/reserved_domains", BODIES["/reserved_domains"](client))
