"""The log: one JSON line for each request, with what an operator needs and nothing that anybody must not see."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from chalicelib.authorizer import authorize
from chalicelib.http import log
from tests import gateway
from tests.conftest import ROOT, free_port
from tests.http.conftest import OneRoute, Serve
from tests.refusals import INTERNAL
from tests.transports import Client, key_in

Output = pytest.CaptureFixture[str]
NO_CREDENTIALS = "no credentials are set: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"


def lines(output: Output) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.readouterr().out.splitlines()]


def empty(call: object) -> dict[str, Any]:
    return {}


def test_a_request_leaves_one_line(admin: Client, serve: Serve, capsys: Output) -> None:
    answer = serve(admin, OneRoute(lambda call: {"a": "é"})).get("/path")
    (line,) = lines(capsys)
    assert line.pop("duration_ms") >= 0
    assert line == {
        "level": "INFO",
        "operation_id": answer.headers["operation-id"],
        "account": admin.account,
        "key": key_in(admin.token),
        "method": "GET",
        "route": "/path",
        "status": 200,
        "bytes": len(answer.text),
    }


def test_a_refusal_leaves_one_line_that_names_no_path_of_its_own(nobody: Client, serve: Serve, capsys: Output) -> None:
    client = serve(nobody, OneRoute(empty))
    for method, path in (("GET", "/path"), ("PUT", "/path"), ("GET", "/somewhere/else")):
        client.send(method, path)
    log_lines = lines(capsys)
    assert [(line["status"], line["route"], line["account"]) for line in log_lines] == [
        (401, "/path", None),
        (405, "/path", None),
        (404, "/{proxy+}", None),
    ]
    assert {line["level"] for line in log_lines} == {"INFO"}


def test_a_crash_leaves_its_place_in_the_code_but_not_what_it_says(admin: Client, serve: Serve, capsys: Output) -> None:
    def crash(call: object) -> Any:
        raise RuntimeError("the secret of the crash")

    answer = serve(admin, OneRoute(crash)).get("/path")
    output = capsys.readouterr().out
    (line,) = [json.loads(text) for text in output.splitlines()]
    assert (line["level"], line["status"], line["error"]) == ("ERROR", 500, "RuntimeError")
    assert line["operation_id"] == answer.headers["operation-id"]
    assert __file__ in line["at"][-1]
    assert line["at"][-1].endswith(" crash")
    assert "the secret of the crash" not in output + answer.text


def test_an_answer_that_is_no_json_leaves_its_place_too(admin: Client, serve: Serve, capsys: Output) -> None:
    serve(admin, OneRoute(lambda call: {"a": float("nan")})).get("/path")
    (line,) = lines(capsys)
    assert (line["level"], line["status"], line["error"]) == ("ERROR", 500, "ValueError")


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 2), ("info", 2), ("ERROR", 1), ("CRITICAL", 0), ("loud", 2)])
def test_the_log_level_is_a_setting(
    admin: Client, serve: Serve, capsys: Output, monkeypatch: pytest.MonkeyPatch, level: str, count: int
) -> None:
    monkeypatch.setenv("LOG_LEVEL", level)
    serve(admin, OneRoute(empty)).get("/path")
    serve(admin, OneRoute(lambda call: {"present": 1}["absent"])).get("/path")
    assert len(lines(capsys)) == count


def test_the_line_names_the_operation_of_the_gateway_and_the_account_of_its_authorizer(
    admin: Client, caplog: pytest.LogCaptureFixture
) -> None:
    context = {"account": "acct_x", "caller": "usr_x", "admin": "true", "version": "2", "key": "ak_x"}
    gateway.answer(gateway.event("GET", "/api_keys", {}, authorizer=context, requestId="9f1b6b4e-0001"))
    line = json.loads(caplog.messages[-1])
    assert (line["operation_id"], line["account"], line["key"]) == ("9f1b6b4e-0001", "acct_x", "ak_x")


def test_a_secret_in_a_path_is_not_logged(admin: Client, caplog: pytest.LogCaptureFixture) -> None:
    admin.get(f"/api_keys/{admin.token}")
    admin.get(f"/nope/{admin.token}?token={admin.token}")
    assert admin.token not in caplog.text


def test_the_authorizer_leaves_a_line_for_each_of_its_decisions(admin: Client, own_log: None, capsys: Output) -> None:
    log.start()
    authorized_headers = {"Authorization": f"Bearer {admin.token}", "Service-Version": "2"}
    for headers in (authorized_headers, {**authorized_headers, "Service-Version": "1"}):
        authorize(gateway.event("GET", "/api_keys", headers), None)
    with pytest.raises(Exception, match="Unauthorized"):
        authorize(gateway.event("GET", "/api_keys", {"Authorization": f"Bearer {admin.token}x"}), None)
    caller = {"account": admin.account, "key": key_in(admin.token)}
    unknown = {"account": None, "key": None}
    assert lines(capsys) == [
        {"level": "INFO", "operation_id": gateway.OPERATION_ID, **caller_fields, "decision": decision}
        for caller_fields, decision in ((caller, "allowed"), (caller, "allowed"), (unknown, "unauthenticated"))
    ]


def test_a_store_that_is_out_of_reach_is_an_error_in_the_line_of_the_authorizer(admin: Client) -> None:
    event = gateway.event("GET", "/api_keys", {"Authorization": f"Bearer {admin.token}"})
    script = f"from chalicelib.authorizer import authorize; authorize({event!r}, None)"
    nowhere = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, timeout=30)
    line = json.loads(process.stdout)
    assert (line["level"], line["decision"], line["code"]) == ("ERROR", "unavailable", "EndpointConnectionError")
    assert "authorizer.py" in line["at"][0]
    assert admin.token not in process.stdout


@pytest.mark.parametrize("function", ["", "api"])
def test_an_environment_without_a_store_is_logged_and_callers_learn_of_it_outside_lambda(function: str) -> None:
    script = (
        "import os; from tests.transports import Client, key_in, InProcess\n"
        "client = Client(InProcess(), '0' * 27 + '_secret')\n"
        "print(client.get('/api_keys'))\n"
        "os.environ['AWS_DEFAULT_REGION'] = 'us-east-1'\n"
        "print(client.get('/api_keys'))\n"
    )
    settings = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_EC2_METADATA_DISABLED": "true", "TABLE_NAME": "mine"}
    settings |= {"AWS_LAMBDA_FUNCTION_NAME": function} if function else {}
    files = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    unset = ("AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION")
    environment = {name: value for name, value in {**os.environ, **settings, **files}.items() if name not in unset}
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    first, no_region, second, no_credentials = process.stdout.splitlines()
    for line, answer, region, code, missing in (
        (first, no_region, "none", "NoRegionError", "no region is set: set AWS_DEFAULT_REGION"),
        (second, no_credentials, "us-east-1", "NoCredentialsError", NO_CREDENTIALS),
    ):
        store = {"table": "mine", "key_id": "alias/tunnel-edge", "region": region, "endpoint": "http://127.0.0.1:1"}
        assert json.loads(line)["code"] == code
        assert json.loads(line)["store"] == {"missing": missing, **store}
        assert "status=500" in answer
        assert not [name for name in ("mine", "alias", "127.0.0.1") if name in answer.partition("text=")[2]]
        assert (missing in answer) is (not function)
        assert (INTERNAL in answer) is bool(function)


def test_a_table_that_is_not_there_is_told_in_the_line(
    admin: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TABLE_NAME", "nowhere")
    answer = admin.get("/api_keys")
    assert answer.json["error_code"] == "internal_error"
    store = json.loads(caplog.messages[-1])["store"]
    assert store["missing"] == "the table does not exist: 'python -m chalicelib store create' creates it"
    assert store["table"] == "nowhere"
