"""The recipes of docs/federation.md, run as they stand against an issuer on loopback and a real OpenSSH server."""

import json
import os
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from chalicelib import clock
from tests.conftest import ROOT, remember_stored, serve
from tests.federation import exchanges, issuer_server
from tests.federation.exchanges import Issuer
from tests.live.ssh import keygen
from tests.live.ssh.sshd import USER, Signed, Sshd, accepted, refused
from tests.transports import Client

PAGE = (ROOT / "docs" / "federation.md").read_text()
pytestmark = pytest.mark.needs("bash", "curl", "jq", "sshd")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Issuer]]:
    with issuer_server.serve_issuer() as server:
        allowed = f"{server.url}=repository_id|project_id|sub|hd"
        process, served = serve(tmp_path_factory.mktemp("federation") / "local", OIDC_ISSUERS=allowed)
        yield served.client(), Issuer(server)
        remember_stored(served)
        process.terminate()
        process.wait(timeout=30)


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    assert match, title
    return match[1]


def indent(title: str) -> list[str]:
    """Return the indented blocks of a section."""
    blocks = re.findall(r"(?:^    .*\n)+", section(title), re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


def yaml_of(title: str) -> Any:
    match = re.search(r"```yaml\n(.*?)```", section(title), re.DOTALL)
    assert match
    return yaml_parse(match[1])


def run(script: str, folder: Path, settings: Mapping[str, str]) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **settings}
    command = ["bash", "-euc", script]  # without pipefail, as runners of pipelines do
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def settings(admin: Client) -> dict[str, str]:
    return {"API": admin.transport.base_url, "API_KEY": admin.token}


def bot_of(admin: Client, name: str) -> str:
    return str(admin.create("/bot_users", {"name": f"{name}-{time.monotonic_ns()}"})["id"])


def test_a_github_workflow(api: tuple[Client, Issuer], tmp_path: Path) -> None:
    admin, issuer = api
    creation = next(block for block in indent("A GitHub workflow") if "bot_users" in block)
    edge = admin.create("/edges/https", {})["id"]
    creation = creation.replace("https://token.actions.githubusercontent.com", issuer.url).replace("edghts_…", edge)
    credential = run(creation, tmp_path, settings(admin)).strip()

    token = issuer.token(credential, environment="production")
    issuer.server.documents[f"/request?api-version=2&audience={credential}"] = {"value": token}
    job = yaml_of("A GitHub workflow")["jobs"]["deploy"]
    github = tmp_path / "github"
    runner = {
        "API": admin.transport.base_url,
        "FEDERATED_CREDENTIAL": credential,
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{issuer.url}/request?api-version=2",
        "GITHUB_ENV": str(github),
    }
    assert {"API", "FEDERATED_CREDENTIAL"} == job["env"].keys()
    sign_in, use = (step["run"] for step in job["steps"])
    masked = run(sign_in, tmp_path, runner)
    (name, key), *_ = [line.split("=", 1) for line in github.read_text().splitlines()]
    assert (name, masked) == ("API_KEY", f"::add-mask::{key}\n")
    assert [
        edge_record["id"] for edge_record in json.loads(run(use, tmp_path, {**runner, name: key}))["https_edges"]
    ] == [edge]
    assert admin.with_token(key).get("/tunnels").status == 403
    assert admin.patch(f"/federated_credentials/{credential}", {"enabled": False}).status == 200
    with pytest.raises(AssertionError, match="error: 400"):
        run(sign_in, tmp_path, runner)


def test_a_gitlab_job(api: tuple[Client, Issuer], tmp_path: Path) -> None:
    admin, issuer = api
    claims = json.loads(re.search(r"`({\"project_id.*?})`", section("A GitLab job"))[1])  # type: ignore[index]
    credential = issuer.credential(admin, claims=claims, owner_id=bot_of(admin, "gitlab"))["id"]
    (script,) = yaml_of("A GitLab job")["deploy"]["script"]
    script = f"{script.replace('fcred_…', credential)}\necho $API_KEY"
    token = issuer.token(credential, repository_id=None, **claims)
    key = run(script, tmp_path, {**settings(admin), "ID_TOKEN": token}).strip()
    assert admin.with_token(key).get("/backends/weighted").status == 200


def test_a_kubernetes_service_account(api: tuple[Client, Issuer]) -> None:
    admin, issuer = api
    claims = json.loads(re.search(r"`({\"sub.*?})`", section("A Kubernetes service account"))[1])  # type: ignore[index]
    credential = issuer.credential(admin, claims=claims, owner_id=bot_of(admin, "pod"))["id"]
    (volume,) = yaml_of("A Kubernetes service account")["volumes"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "fcred_…"
    now = int(time.time())
    token = issuer.token(credential, jti=None, aud=[credential], exp=now + 3600, **claims)
    assert exchanges.exchange(admin, token, credential).status == 200


def test_a_certificate_and_a_login(api: tuple[Client, Issuer], server: Sshd, tmp_path: Path) -> None:
    admin, issuer = api
    authority = admin.create("/ssh_certificate_authorities", {})
    server.trust(authority)
    scope = f"ssh_user_certificates:create@{authority['id']}"
    credential = issuer.credential(admin, scopes=[scope], max_lifetime=60, owner_id=bot_of(admin, "ssh"))["id"]
    (recipe,) = indent("A certificate and a login")
    script, _, login = recipe.strip().rpartition("\n")
    assert login == "ssh -i id deploy@server.example.com"
    script = script.replace("sshca_…", authority["id"]).replace('"deploy"', f'"{USER}"')
    environment = {**settings(admin), "FEDERATED_CREDENTIAL": credential, "token": issuer.token(credential)}
    run(script, tmp_path, environment)
    pair = keygen.KeyPair(tmp_path / "id")
    certificate = (tmp_path / "id-cert.pub").read_text().strip()
    identity = Signed(pair, {"id": "exchanged", "certificate": certificate})
    assert server.login(identity, "echo in") == accepted("in\n")
    soon = clock.rfc3339(clock.at(clock.seconds() + 4))
    request = {"ssh_certificate_authority_id": authority["id"], "public_key": pair.public, "principals": [USER]}
    token = issuer.token(credential)
    answer = exchanges.exchange(admin, token, credential, certificate={**request, "valid_until": soon}).json
    brief = Signed(pair, answer["ssh_user_certificate"])
    assert server.login(brief, "echo in") == accepted("in\n")
    end = time.monotonic() + 20
    while (ended := server.login(brief, "echo in")) == accepted("in\n") and time.monotonic() < end:
        time.sleep(0.5)
    assert ended == refused("Certificate invalid: expired")


def test_people_of_a_company(api: tuple[Client, Issuer]) -> None:
    admin, issuer = api
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    recipe = next(block for block in indent("People of a company") if "owner_claim" in block)
    fields = json.loads(recipe.replace("https://accounts.google.com", issuer.url).replace("sshca_…", authority))
    credential = admin.create("/federated_credentials", fields)["id"]
    policy = {"user": {"allowed_principals": ["{user}"]}}
    assert admin.put(f"/ssh_certificate_authorities/{authority}/policy", policy).status == 200
    parameters = admin.with_token("").get(f"/federated_credentials/{credential}/sign_in").json
    token = issuer.token(parameters["client_id"], email="ada@example.com", email_verified=True, hd="example.com")

    def sign(principal: str) -> int:
        request = {"ssh_certificate_authority_id": authority, "principals": [principal]}
        request["public_key"] = admin.create("/ssh_certificate_authorities", {})["public_key"]
        return exchanges.exchange(admin, token, parameters["audience"], certificate=request).status

    assert (sign("root"), sign("ada@example.com")) == (400, 200)


@pytest.mark.parametrize("root", ["federated_credentials", "api_keys", "users"])
def test_incidents(api: tuple[Client, Issuer], root: str) -> None:
    """A compromised issuer, a stolen key, a leaving colleague: one call ends the keys."""
    admin, issuer = api
    assert f"POST /{root}/{{id}}/offboard" in section("Rotation and incidents")
    name = f"{root}@example.com"
    credential = issuer.credential(admin, owner_claim="email", provision=True, scopes=["api_keys:write"])["id"]
    token = issuer.token(credential, email=name, email_verified=True, sub=name)
    got = exchanges.exchange(admin, token, credential).json
    key = admin.with_token(got["access_token"])
    child = key.with_token(key.create("/api_keys", {})["token"])
    id = {"federated_credentials": credential, "api_keys": got["id"], "users": got["owner"]["id"]}[root]
    assert admin.post(f"/{root}/{id}/offboard", {}).status == 200
    assert (key.get("/me").status, child.get("/me").status) == (401, 401)
    assert exchanges.exchange(admin, token, credential).status == (200 if root == "api_keys" else 400)


def test_a_published_client_of_oauth(api: tuple[Client, Issuer]) -> None:
    admin, issuer = api
    credential = issuer.credential(admin, owner_id=bot_of(admin, "authlib"), scopes=["edges:read"])["id"]
    url, used = admin.transport.base_url, dict[str, Any](token=issuer.token(credential))
    recipe = "".join(indent("Clients of OAuth")).replace("session.get(", "answer = session.get(")
    exec(recipe.replace("https://api.example.com", url).replace("fcred_…", credential), used)
    assert (used["answer"].status_code, "https_edges" in used["answer"].json()) == (200, True)
    response = used["session"].get(f"{url}/api_keys", headers={"Service-Version": "2"})
    assert (response.status_code, response.json()["error_code"]) == (403, "forbidden")
