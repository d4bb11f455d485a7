"""The alarms of infra/edge/alerts.yml on what Prometheus would have read: which fires, and that none does by habit."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from tests.conftest import ROOT

pytestmark = pytest.mark.needs("promtool")
_RULES = ROOT / "infra" / "edge" / "alerts.yml"


def _gateway(event: str) -> str:
    return f'edge_gateway_events_total{{event="{event}"}}'


def _issuer(event: str) -> str:
    return f'edge_issuer_events_total{{event="{event}"}}'


def _control(event: str) -> str:
    return f'edge_control_events_total{{event="{event}"}}'


def _listener(name: str, port: str = "https") -> str:
    return f'envoy_listener_downstream_{name}_total{{envoy_listener_address="{port}"}}'


def _list_refusals(budget: str) -> str:
    return f'edge_names_refused_total{{reason="{budget}_budget"}}'


_4XX = 'envoy_http_downstream_rq_xx_total{envoy_response_code_class="4",envoy_http_conn_manager_prefix="https"}'
_HEADERS = 'envoy_http_downstream_rq_header_timeout_total{envoy_http_conn_manager_prefix="https"}'
_TOO_OFTEN = 'envoy_http_local_rate_limit_rate_limited_total{envoy_local_http_ratelimit_prefix="visitor"}'
_LIMITED = 'envoy_connection_limit_limited_connections_total{envoy_connection_limit_prefix="https"}'
_HEAP = "envoy_overload_envoy_resource_monitors_fixed_heap_pressure"
_MIB = 1 << 20

# Each 15 seconds, for ten minutes: what an edge in public sees of scanners and clumsy clients on any day.
_QUIET: Mapping[str, str] = {
    'edge_up{process="gateway"}': "1x40",
    'edge_up{process="control"}': "1x40",
    'edge_up{process="envoy"}': "1x40",
    "up": "1x40",
    "edge_control_behind_seconds": "0.4x40",
    _gateway("store_away"): "0x40",
    _gateway("sign_in_failed"): "0+9x40",
    _gateway("sign_in_refused"): "0+9x40",
    _gateway("sign_in_blocked"): "0+1x40",
    _gateway("sign_in_dropped"): "0+1x40",
    _listener("cx_overflow"): "0x40",
    _listener("cx_overflow", "http"): "0x40",
    _listener("global_cx_overflow"): "0x40",
    _listener("global_cx_overflow", "http"): "0x40",
    _LIMITED: "0x40",
    _listener("pre_cx_timeout"): "0+5x40",
    _listener("cx_transport_socket_connect_timeout"): "0+5x40",
    _HEADERS: "0+5x40",
    "edge_gateway_bodies_too_slow_total": "0+1x40",
    "edge_gateway_channels_refused_total": "0x40",
    "edge_gateway_channels_given_way_total": "0+1x40",
    _TOO_OFTEN: "0+5x40",
    _4XX: "0+300x40",
    "edge_gateway_buffer_bytes": f"{96 * _MIB}x40",
    "edge_gateway_buffer_limit_bytes": f"{192 * _MIB}x40",
    _HEAP: "10x40",
    "edge_gateway_process_resident_memory_bytes": f"{300 * _MIB}x40",
    _control("resource_refused"): "0x40",
    "edge_names_loaded_bytes": f"{500 * _MIB}x40",
    "edge_names_limit_bytes": f"{1000 * _MIB}x40",
    _list_refusals("host"): "0x40",
    _list_refusals("domain"): "0+5x40",
    "edge_secrets_pending": "3x40",
    "edge_gateway_process_open_fds": "700x40",
    "edge_gateway_process_max_fds": "1024x40",
    'edge_gateway_lag_seconds{task="lease_renewal"}': "2x40",
    'edge_gateway_lag_seconds{task="changes"}': "0x40",
    'edge_control_lag_seconds{task="changes"}': "0x40",
    'edge_control_lag_seconds{task="statuses"}': "1x40",
    "edge_gateway_lease_seconds_left": "45x40",
    "edge_gateway_lease_limit_seconds": "60x40",
    "edge_gateway_renewal_seconds": "0.02x40",
    "edge_gateway_tunnels": "500x40",
    "edge_gateway_tunnel_limit": "1000x40",
    "edge_gateway_draining": "0x40",
    "edge_oauth_clock_seconds": "1x40",
    "edge_gateway_handover_failed_total": "0x40",
}

_CASES: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "a quiet day": ({}, []),
    "a restart": (
        {_gateway("sign_in_failed"): "900+9x20 0+9x20", "edge_gateway_channels_refused_total": "70x20 0x20"},
        [],
    ),
    "a process is gone": ({'edge_up{process="envoy"}': "0x40"}, ["EdgeProcessDown"]),
    "the host is gone": ({"up": "0x40"}, ["EdgeProcessDown"]),
    "control reads nothing": ({"edge_control_behind_seconds": "31+15x40"}, ["EdgeControlBehind"]),
    "the store is away": ({_gateway("store_away"): "0x30 1+1x9"}, ["EdgeStoreAway"]),
    "the lease is not renewed": ({"edge_gateway_lease_seconds_left": "45x38 19 4"}, ["EdgeLeaseEnding"]),
    "renewals are slow": ({"edge_gateway_renewal_seconds": "6x40"}, ["EdgeRenewalSlow"]),
    "a gateway is nearly full": ({"edge_gateway_tunnels": "910x40"}, ["EdgeGatewayFull"]),
    "a gateway drains": ({"edge_gateway_draining": "0x37 1x2"}, []),
    "a drain does not end": ({"edge_gateway_draining": "0x30 1x9"}, ["EdgeDrainTooLong"]),
    "held connections are closed": ({"edge_gateway_handover_failed_total": "0x30 3x9"}, ["EdgeHandoverFailed"]),
    "thirty sign-ins are held": (
        {_gateway("sign_in_dropped"): "0+23x40", _gateway("sign_in_refused"): "0+700x40"},
        ["EdgeSignInsComeToNothing", "EdgeSignInsDropped"],
    ),
    "wrong keys": ({_gateway("sign_in_failed"): "0+100x40"}, ["EdgeSignInsComeToNothing"]),
    "a blocked network knocks": ({_gateway("sign_in_blocked"): "0+300x40"}, ["EdgeSignInsComeToNothing"]),
    "the port without TLS is full": ({_listener("cx_overflow", "http"): "0+9x40"}, ["EdgeConnectionsExhausted"]),
    "https is full": ({_LIMITED: "0+9x40"}, ["EdgeConnectionsExhausted"]),
    "300 silent connections, once": ({_listener("pre_cx_timeout"): "0+5x30 450+5x9"}, ["EdgeHandshakesHeld"]),
    "handshakes are held": ({_listener("cx_transport_socket_connect_timeout"): "0+75x40"}, ["EdgeHandshakesHeld"]),
    "headers do not end": ({_HEADERS: "0+75x40"}, ["EdgeSlowHeaders"]),
    "256 slow bodies, once": ({"edge_gateway_bodies_too_slow_total": "0+1x30 286+1x9"}, ["EdgeSlowBodies"]),
    "a tunnel is full": ({"edge_gateway_channels_given_way_total": "0+30x40"}, ["EdgeChannelsScarce"]),
    "one visitor asks too often": ({_TOO_OFTEN: "0+3000x40"}, ["EdgeVisitorAsksTooOften"]),
    "unknown names are asked for": ({_4XX: "0+3000x40"}, ["EdgeManyRefusedRequests"]),
    "visitors of four tunnels read nothing": ({"edge_gateway_buffer_bytes": f"{150 * _MIB}x40"}, ["EdgeBuffersFull"]),
    "Envoy's memory is short": ({_HEAP: "85x40"}, ["EdgeMemoryShort"]),
    "the gateway's memory is short": (
        {"edge_gateway_process_resident_memory_bytes": "1600000000x40"},
        ["EdgeMemoryShort"],
    ),
    "the loaded names need most of their memory": (
        {"edge_names_loaded_bytes": f"{910 * _MIB}x40"},
        ["EdgeNamesNearLimit"],
    ),
    "a burst of loaded names": ({"edge_names_loaded_bytes": f"{910 * _MIB}x25 {500 * _MIB}x14"}, []),
    "names of many domains are requested": ({_list_refusals("host"): "0+300x40"}, ["EdgeNamesRefused"]),
    "labels below one domain are invented": ({_list_refusals("domain"): "0+300x40"}, ["EdgeNamesRefused"]),
    "control answers no requests for certificates": (
        {"edge_secrets_pending": "3x30 6000+1000x9"},
        ["EdgeSecretsPending"],
    ),
    "a provider does not answer": (
        {'edge_oauth_sign_ins_total{outcome="silent",provider="github"}': "0+1x40"},
        ["EdgeOAuthFailing"],
    ),
    "the clock of a host is late": ({"edge_oauth_clock_seconds": "-6x40"}, ["EdgeOAuthClockWrong"]),
    "a gateway has many connections": ({"edge_gateway_process_open_fds": "900x40"}, ["EdgeGatewayFull"]),
    "renewals do not end": ({'edge_gateway_lag_seconds{task="lease_renewal"}': "0+15x40"}, ["EdgeRenewalsLate"]),
    "a gateway misses changes": ({'edge_gateway_lag_seconds{task="changes"}': "0+15x40"}, ["EdgeChangesMissed"]),
    "control misses changes": ({'edge_control_lag_seconds{task="changes"}': "0+15x40"}, ["EdgeChangesMissed"]),
    "statuses are not written": ({'edge_control_lag_seconds{task="statuses"}': "0+15x40"}, ["EdgeStatusesFail"]),
    "a certificate ends soon, and its renewal fails": (
        {_issuer("certificate_late"): "0x25 1x14"},
        ["EdgeCertificateLate"],
    ),
    "no order succeeds": ({_issuer("ca_failed"): "0+1x40", _issuer("certificate_issued"): "3x40"}, ["EdgeOrdersFail"]),
    "some orders fail": ({_issuer("ca_failed"): "0+1x40", _issuer("certificate_issued"): "0+1x40"}, []),
    "Envoy refuses a value, once": ({_control("resource_refused"): "0x25 1x14"}, ["EdgeResourceRefused"]),
}


def _list_series(case: str, series: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the series of a host that is named after a case."""
    host = f'instance="{case}",job="tunnel-edge"'
    for name, values in {**_QUIET, **series}.items():
        labelled = name.replace("}", f",{host}}}") if "}" in name else f"{name}{{{host}}}"
        yield {"series": labelled, "values": values}


def _list_alarms(case: str, alarms: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the alarms of the host of a case that fire at the end of ten minutes."""
    for alarm in alarms:
        yield {"labels": f'{{alertname="{alarm}",instance="{case}"}}', "value": 1}


def test_each_alarm_has_its_attack() -> None:
    alarms = {rule["alert"] for rule in yaml_parse(_RULES.read_text())["groups"][0]["rules"]}
    assert alarms == {alarm for _, expected in _CASES.values() for alarm in expected}


def test_each_attack_has_its_alarm_and_a_quiet_day_has_none(tmp_path: Path) -> None:
    fires = {
        "expr": 'count by (alertname, instance) (ALERTS{alertstate="firing"})',
        "eval_time": "10m",
        "exp_samples": [sample for case, (_, alarms) in _CASES.items() for sample in _list_alarms(case, alarms)],
    }
    read = [sample for case, (series, _) in _CASES.items() for sample in _list_series(case, series)]
    test = {"interval": "15s", "input_series": read, "promql_expr_test": [fires]}  # of one fleet: 45 hosts
    file = tmp_path / "alarms.json"
    file.write_text(json.dumps({"rule_files": [str(_RULES)], "evaluation_interval": "15s", "tests": [test]}))
    result = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
