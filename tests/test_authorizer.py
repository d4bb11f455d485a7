"""The gateway's authorizer: who may pass and as whom, what it imports, and how the app trusts what it said."""

import subprocess
import sys
from typing import Any

import pytest
from chalice.deploy.swagger import TemplatedSwaggerGenerator

from app import app
from chalicelib import clock
from chalicelib.authorizer import authorize
from chalicelib.http.middleware import ANY_METHOD
from tests import gateway
from tests.conftest import ROOT
from tests.samples import OPEN
from tests.transports import Client, key_in

Headers = dict[str, str]
JSON = {"Content-Type": "application/json"}


def headers(client: Client, version: str = "2") -> Headers:
    return {"Authorization": f"Bearer {client.token}", "Service-Version": version}


def context(client: Client, admin: str, version: str = "2", used: str = "0", name: str = "admin") -> dict[str, str]:
    """Return who is calling, as the app is told."""
    key = key_in(client.token)
    reach = {"scopes": "", "expires": "", "networks": "", "account_networks": "", "used": used, "name": name}
    return {"account": client.account, "caller": client.user, "admin": admin, "version": version, "key": key, **reach}


def policy(effect: str, principal: str, context: dict[str, str]) -> dict[str, Any]:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": "*"}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": context,
    }


@pytest.mark.parametrize("version", ["2", "0"])
def test_a_caller_may_use_every_route_and_is_described_in_strings(admin: Client, version: str) -> None:
    event = gateway.event("GET", "/api_keys", headers(admin, version))
    last_used = clock.parse(admin.get(f"/api_keys/{key_in(admin.token)}/usage").json["last_used_at"])
    caller_context = context(admin, "true", version, used=f"{last_used.timestamp():.0f}")
    assert authorize(event, None) == policy("Allow", admin.user, caller_context)


def test_a_member_is_described_as_no_admin(member: Client) -> None:
    described = authorize(gateway.event("GET", "/api_keys", headers(member)), None)["context"]
    assert described == context(member, "false", name="member")


def test_the_names_of_headers_may_have_any_case(admin: Client) -> None:
    raw_headers = {name.upper(): value for name, value in headers(admin).items()}
    assert authorize({"headers": raw_headers}, None)["principalId"] == admin.user
    raw_headers = {name.lower(): value for name, value in headers(admin).items()}
    assert authorize({"headers": raw_headers}, None)["principalId"] == admin.user


@pytest.mark.parametrize("raw_headers", [None, {}, {"Authorization": "Bearer x"}, {"Service-Version": "9"}])
def test_nobody_is_answered_with_the_word_that_the_gateway_knows(raw_headers: Headers | None) -> None:
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        authorize({"headers": raw_headers}, None)


def test_an_unknown_or_deleted_key_is_nobody(admin: Client) -> None:
    key = admin.create("/api_keys", {})
    deleted = admin.with_token(key["token"])
    assert authorize({"headers": headers(deleted)}, None)["principalId"] == admin.user
    admin.delete(f"/api_keys/{key['id']}")
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        authorize({"headers": headers(deleted)}, None)


@pytest.mark.parametrize("version", [{}, {"Service-Version": "9"}, {"Service-Version": ""}, {"Other-Version": "2"}])
def test_the_app_refuses_another_version_after_its_limits(admin: Client, version: Headers) -> None:
    raw_headers = {"Authorization": f"Bearer {admin.token}", **version}
    decision = authorize({"headers": raw_headers}, None)
    assert (decision["principalId"], "version" in decision["context"]) == (admin.user, False)
    answer = gateway.answer(gateway.event("GET", "/api_keys", version, authorizer=decision["context"]))
    assert (answer.status, answer.json["error_code"]) == (400, "unsupported_version")


def test_the_authorizer_imports_no_more_than_it_needs() -> None:
    # The package has no pyOpenSSL, which a tool of the development environment brings and botocore would import.
    without = "import sys; sys.modules['OpenSSL'] = None; import chalicelib.authorizer"
    script = f"{without}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    output = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert "chalicelib" in output.split()
    assert {"app", "boto3", "chalice", "cryptography", "pydantic", "pydantic_core"} & {*output.split()} == set()


def test_the_app_trusts_the_authorizer_and_reads_no_token(admin: Client) -> None:
    for raw_headers in ({}, {"Authorization": "Bearer none"}, {"Service-Version": "9"}):
        answer = gateway.answer(gateway.event("POST", "/api_keys", raw_headers, authorizer=context(admin, "true")))
        assert (answer.status, answer.json["owner_id"]) == (201, admin.user)


def test_the_app_takes_account_rights_and_version_from_the_authorizer(admin: Client, stranger: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})
    caller_context = context(stranger, "false")
    event = gateway.event(
        "GET", f"/ssh_certificate_authorities/{authority['id']}", headers(admin), authorizer=caller_context
    )
    assert gateway.answer(event).status == 404
    event = gateway.event("POST", "/api_keys", JSON, b'{"owner_id": "usr_%b"}' % (b"0" * 27), authorizer=caller_context)
    assert gateway.answer(event).status == 403


def test_the_app_asks_for_the_token_where_no_authorizer_did() -> None:
    answer = gateway.answer(gateway.event("GET", "/api_keys", {"Service-Version": "2"}))
    assert (answer.status, answer.json["error_code"]) == (401, "unauthenticated")


def test_a_uri_begins_as_the_gateway_was_reached(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = {"Host": "api.example", "X-Forwarded-Proto": "https"}
    event = gateway.event("GET", "/api_keys", headers(admin) | reached)
    assert gateway.answer(event).json["uri"] == "https://api.example/api_keys"
    event["requestContext"]["path"] = "/v2/api_keys"
    assert gateway.answer(event).json["uri"] == "https://api.example/v2/api_keys"
    monkeypatch.setenv("BASE_URL", "https://tunnels.example/")
    assert gateway.answer(event).json["uri"] == "https://tunnels.example/api_keys"


def test_every_endpoint_but_the_open_ones_stands_behind_a_request_authorizer_that_remembers_nothing() -> None:
    swagger = TemplatedSwaggerGenerator().generate_swagger(app)
    definition = swagger["securityDefinitions"]["authorizer"]
    uri = definition["x-amazon-apigateway-authorizer"].pop("authorizerUri")
    assert "${Authorizer.Arn}" in uri["Fn::Sub"]
    assert definition["x-amazon-apigateway-authorizer"] == {"type": "request", "authorizerResultTtlInSeconds": 0}
    for path, methods in swagger["paths"].items():
        for method, described in methods.items():
            secured: list[dict[str, list[str]]] = [] if method == ANY_METHOD or path in OPEN else [{"authorizer": []}]
            assert described.get("security", []) == secured, (method, path)


def test_every_path_has_the_gateways_fallback_for_other_methods() -> None:
    assert {path for path, methods in app.routes.items() if ANY_METHOD not in methods} == set()
    assert {"/", "/{proxy+}"} <= app.routes.keys()


def test_each_place_in_a_path_has_one_variable_name() -> None:
    names: dict[tuple[str, ...], set[str]] = {}
    for path in app.routes:
        steps = path.strip("/").split("/")
        for index, step in enumerate(steps):
            if step.startswith("{") and not step.endswith("+}"):
                before = tuple("{}" if previous.startswith("{") else previous for previous in steps[:index])
                names.setdefault(before, set()).add(step)
    assert {before: variables for before, variables in names.items() if len(variables) > 1} == {}
    assert names[("api_keys",)] == {"{id}"}


def test_a_scheme_that_is_none_of_http_leads_nowhere_else(admin: Client) -> None:
    raw_headers = {**headers(admin), "Host": "api.example", "X-Forwarded-Proto": "javascript"}
    assert gateway.answer(gateway.event("GET", "/api_keys", raw_headers)).json["uri"] == "http://api.example/api_keys"
