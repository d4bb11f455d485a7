"""The page's loop that waits until an edge is live, beside an edge host that writes what has become of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.pages import blocks
from tests.conftest import ROOT, Served

SAYS = """
import sys
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import EdgeStatus
account, edge, state, revision = sys.argv[1:]
edge_status.announce("one", lease=60)
edge_status.write(account, edge, "one", EdgeStatus(state, int(revision), "2026-01-01T00:00:00Z"))
"""


def says(served: Served, account: str, edge: str, state: str, revision: int) -> None:
    """Have an edge host say what it has made of an edge."""
    command = [sys.executable, "-c", SAYS, account, edge, state, str(revision)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **served.cloud}, check=True)


@pytest.mark.needs("curl", "jq")
def test_a_pipeline_waits_until_its_change_is_live(served: Served, tmp_path: Path) -> None:
    (loop,) = blocks("docs/edge.md", "The status of an edge")
    api = served.client()
    account, edge = api.get("/me").json["account"], api.create("/edges/https", {})["id"]
    says(served, account, edge, "live", 1)
    api.patch(f"/edges/https/{edge}", {"description": "new"})
    settings = {"PATH": os.environ["PATH"], "BASE_URL": served.base_url, "API_KEY": served.token, "no_proxy": "*"}
    pipeline = subprocess.Popen(
        ["sh", "-eu", "-c", loop], cwd=tmp_path, env={**settings, "EDGE": edge}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert pipeline.stdout
        told = [json.loads(pipeline.stdout.readline())]
        says(served, account, edge, "live", 2)
        told += map(json.loads, pipeline.communicate(timeout=20)[0].splitlines())
    finally:
        pipeline.kill()
    assert [(it["state"], it["revision"]) for it in told] == [("waiting", 1), ("live", 2)]
    assert pipeline.returncode == 0
    assert list(tmp_path.iterdir()) == []
