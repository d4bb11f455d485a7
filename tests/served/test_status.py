"""The page's loop that waits until an edge is live, beside an edge host that stores the results of trials."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.pages import blocks
from tests.conftest import ROOT, Served

STORE = """
import sys
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
account, edge, revision = sys.argv[1:]
edge_status.announce("one", lease=60)
edge_status.write_trial(account, edge, Report(int(revision), "2026-01-01T00:00:00Z", "one"))
"""


def store_trial(served: Served, account: str, edge: str, revision: int) -> None:
    """Store that an edge host accepted a revision of an edge."""
    command = [sys.executable, "-c", STORE, account, edge, str(revision)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **served.cloud}, check=True)


@pytest.mark.needs("curl", "jq")
def test_a_pipeline_waits_until_its_change_is_live(served: Served, tmp_path: Path) -> None:
    (loop,) = blocks("docs/edge.md", "The status of an edge")
    api = served.client()
    account, edge = (
        api.get("/me").json["account"],
        api.create("/edges/https", {"hostports": ["app.tunnels.localhost:443"]})["id"],
    )
    store_trial(served, account, edge, 1)
    api.patch(f"/edges/https/{edge}", {"description": "new"})
    settings = {"PATH": os.environ["PATH"], "BASE_URL": served.base_url, "API_KEY": served.token, "no_proxy": "*"}
    pipeline = subprocess.Popen(
        ["sh", "-eu", "-c", loop], cwd=tmp_path, env={**settings, "EDGE": edge}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert pipeline.stdout
        statuses = [json.loads(pipeline.stdout.readline())]
        store_trial(served, account, edge, 2)
        statuses += map(json.loads, pipeline.communicate(timeout=20)[0].splitlines())
    finally:
        pipeline.kill()
    assert [(status["state"], status["revision"]) for status in statuses] == [("waiting", 1), ("live", 2)]
    assert pipeline.returncode == 0
    assert list(tmp_path.iterdir()) == []
