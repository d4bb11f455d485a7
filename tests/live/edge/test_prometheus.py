"""What Prometheus reads of an edge, and what a load balancer asks it."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT
from tests.live.edge.conftest import needs_envoy
from tests.live.edge.running import Edge, running, until


def _ask(edge: Edge, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{edge.settings.metrics_port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:  # it has just been started
        return 0, ""


def _values(edge: Edge) -> Mapping[str, float]:
    """Return the sum of each metric."""
    totals: defaultdict[str, float] = defaultdict(float)
    for line in _ask(edge, "/metrics")[1].splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            totals[name.partition("{")[0]] += float(value)
    return totals


@needs_envoy
def test_one_port_tells_of_gateway_control_and_envoy_without_names(edge: Edge, origin: int) -> None:
    edge.ssh(edge.key("acct_M"), "-R", f"counted:80:127.0.0.1:{origin}").wait_for("is online")
    until(lambda: edge.status("counted") == "200")
    until(lambda: _values(edge).get("edge_up") == 3)
    before = _values(edge)

    for _ in range(10):
        assert edge.status("counted") == "200"

    until(lambda: _values(edge)["edge_gateway_requests_total"] == before["edge_gateway_requests_total"] + 10)
    after, text = _values(edge), _ask(edge, "/metrics")[1]
    assert after["edge_gateway_tunnels"] == 1
    assert after["envoy_listener_downstream_cx_total"] >= before["envoy_listener_downstream_cx_total"] + 10
    assert "acct_M" not in text
    assert "counted" not in text
    assert len(text.splitlines()) < 360  # of it 25 tasks: no series for each tunnel or name


@needs_envoy
def test_it_is_ready_while_all_three_answer(tmp_path: Path) -> None:
    with running(tmp_path, with_envoy=True) as edge:
        until(lambda: _ask(edge, "/readyz") == (200, "ready\n"))
        assert _ask(edge, "/healthz") == (200, "ok\n")
        assert _ask(edge, "/other")[0] == 404
    (tmp_path / "more").mkdir()
    with running(tmp_path / "more", with_envoy=False) as edge:
        until(lambda: _ask(edge, "/readyz") == (503, "Envoy has not answered control yet\n"))
        assert _ask(edge, "/healthz") == (200, "ok\n")


_EDGE = ROOT / "infra" / "edge"
_NAME = re.compile(r"\b(?:edge|envoy)_[a-z_]+")


def _list_used() -> set[str]:
    """Return the metrics that alarms and dashboard read."""
    rules = yaml_parse((_EDGE / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((_EDGE / "dashboard.json").read_text())["panels"]
    expressions = [rule["expr"] for rule in rules] + [target["expr"] for panel in panels for target in panel["targets"]]
    words = {name for text in expressions for name in _NAME.findall(text)}
    return words - {"envoy_response_code_class", "envoy_listener_address"}


def _events() -> set[str]:
    """Return the events that alarms wait for: of each Prometheus must have read that there was none before."""
    matches = re.findall(
        r'(?<!edge_issuer)_events_total{event=~?"(\w+)(?:\(([\w|]+)\))?"}', (_EDGE / "alerts.yml").read_text()
    )
    return {f"{name}{end}" for name, suffixes in matches for end in suffixes.split("|")}


@needs_envoy
def test_all_that_alarms_and_dashboard_read_is_there(edge: Edge) -> None:
    until(lambda: _values(edge).get("edge_up") == 3)
    text = _ask(edge, "/metrics")[1]
    of_issuer, of_sign_in = {"edge_issuer_events_total"}, {"edge_oauth_sign_ins_total", "edge_oauth_clock_seconds"}
    assert _list_used() - set(_values(edge)) == of_issuer | of_sign_in  # which do not run here
    assert [event for event in _events() if f'_events_total{{event="{event}"}} ' not in text] == []


@needs_envoy
@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong_with_what_prometheus_reads(edge: Edge) -> None:
    until(lambda: _values(edge).get("edge_up") == 3)
    text = _ask(edge, "/metrics")[1]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_each_rule_stands_in_the_pages_table() -> None:
    rules = yaml_parse((_EDGE / "alerts.yml").read_text())["groups"][0]["rules"]
    page = (ROOT / "docs" / "edge-operations.md").read_text()
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in page] == []


@pytest.mark.needs("promtool")
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", _EDGE / "alerts.yml"], check=True, capture_output=True)
