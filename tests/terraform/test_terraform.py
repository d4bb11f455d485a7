"""The provider in a real Terraform: a resource of every kind, from its creation to its end."""

import json
import re
from pathlib import Path

import pytest

from infra.build.openapi import examples
from tests import samples
from tests.conftest import ROOT, Served
from tests.terraform.conftest import Terraform
from tunneledge_provider.kinds import Kind

WORLD = Path(__file__).with_name("world.tf")
pytestmark = pytest.mark.timeout(300)
NEVER_SHOWN = (  # the resources with a private key or passwords, which the API never shows
    "tunneledge_tls_certificate.app",
    "tunneledge_https_edge_route.inside",
    "tunneledge_reserved_domain.app",
)


@pytest.fixture
def terraform(tmp_path: Path, plugins: Path, served: Served) -> Terraform:
    """Return Terraform in an initialised folder with the whole world, for the admin of a new account."""
    api = served.newcomer()
    environment = {
        "CHECKPOINT_DISABLE": "1",
        "TE_URL": api.base_url,
        "TE_TOKEN": api.token,
        "TF_CLI_ARGS": "-no-color",
        "TF_CLI_CONFIG_FILE": "/dev/null",
    }
    return folder_with(tmp_path / "first", plugins, environment)


def configurations() -> list[str]:
    """Return the configurations of the page, in their order."""
    return re.findall(r"```hcl\n(.*?)```", (ROOT / "docs" / "terraform.md").read_text(), re.DOTALL)


@pytest.mark.needs("terraform")
def test_the_configurations_of_the_page_work(terraform: Terraform) -> None:
    """The first one is applied. The others belong to it."""
    first, *other_configurations = configurations()
    world = terraform.folder / "world.tf"
    world.write_text(first)
    (terraform.folder / "terraform.tfvars.json").unlink()
    terraform.run("apply", "-auto-approve")
    assert terraform.plan() == {}
    world.write_text("\n".join([first, *other_configurations]))
    terraform.run("validate")


def folder_with(folder: Path, plugins: Path, environment: dict[str, str]) -> Terraform:
    folder.mkdir()
    bodies = examples.read()
    (folder / "world.tf").write_text(WORLD.read_text())
    variables = {
        "ca_pem": bodies["certificate_authority"]["create"]["ca_pem"],
        "keys": [samples.public_key() for _ in range(4)],
        **{name: bodies["tls_certificate"]["create"][name] for name in ("certificate_pem", "private_key_pem")},
    }
    (folder / "terraform.tfvars.json").write_text(json.dumps(variables))
    return Terraform(folder, plugins, environment).init()


def test_every_kind_is_in_the_world(kinds: dict[str, Kind]) -> None:
    assert set(re.findall(r'resource "tunneledge_(\w+)"', WORLD.read_text())) == kinds.keys()


@pytest.mark.needs("terraform")
def test_a_resource_of_every_kind_lives_and_is_imported(terraform: Terraform, plugins: Path, tmp_path: Path) -> None:
    """Create, change, import into another state, remove modules, and destroy."""
    terraform.run("apply", "-auto-approve")
    assert terraform.plan() == {}
    resources = terraform.state()
    reader = terraform.with_token(resources["tunneledge_api_key.reader"]["token"])
    reader.run("plan", "-detailed-exitcode", "-target=tunneledge_https_edge_route.all")  # it sees no secret

    assert set(terraform.plan(note="second").values()) == {"update"}
    terraform.run("apply", "planned")
    other = import_all(terraform, folder_with(tmp_path / "second", plugins, dict(terraform.environment)))

    assert set(terraform.plan(note="second", modules="false").values()) == {"update"}
    terraform.run("apply", "planned")
    assert terraform.plan(note="second", modules="false") == {}
    state = terraform.state()
    assert state["tunneledge_https_edge_route.all"]["oauth"] is None
    assert state["tunneledge_https_edge_route.inside"]["basic_auth"] is None

    terraform.run("destroy", "-auto-approve")
    assert other.plan() == dict.fromkeys(resources, "create"), "what does not exist any more is created again"


def import_all(terraform: Terraform, other: Terraform) -> Terraform:
    """Import all resources into an empty state. Nothing is replaced, and only values that are never shown are set."""
    variables = json.loads((terraform.folder / "terraform.tfvars.json").read_text())
    (other.folder / "terraform.tfvars.json").write_text(json.dumps({**variables, "note": "second"}))
    blocks = [
        f'import {{\n to = {address}\n id = "{key_of(resource)}"\n}}' for address, resource in terraform.state().items()
    ]
    (other.folder / "imports.tf").write_text("\n".join(blocks))
    assert other.plan() == dict.fromkeys(NEVER_SHOWN, "update")
    other.run("apply", "planned")
    (other.folder / "imports.tf").unlink()
    assert other.plan() == {}
    return other


def key_of(state: dict[str, str]) -> str:
    """Return what an import names: the id, after the id of the edge or authority that a resource is below."""
    is_revocation = "key_fingerprint" in state
    above = state.get("edge_id") or (state["ssh_certificate_authority_id"] if is_revocation else "")
    return f"{above}/{state['id']}" if above else state["id"]


@pytest.mark.needs("terraform")
def test_what_the_api_refuses_is_shown_with_its_field(terraform: Terraform) -> None:
    output = terraform.run("apply", "-auto-approve", "-target=tunneledge_bot_user.deployer", "-var=bot=", expected=1)
    assert "Error: 'name' must not be empty" in output
    assert "with tunneledge_bot_user.deployer," in output
    assert "name = var.bot" in output
    assert re.search(r"The id of the operation is op_\w{27}\.", output)
