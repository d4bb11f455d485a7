"""What an upgrade asks of who deploys it: the templates of one version against those of the version before.

What the pipeline cannot do by itself, and what changes the data stack, must stand in "Upgrading" of infra/README.md.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infra.deploy import indexes
from infra.deploy.templates import parse_template
from tests.cloud.policies import each
from tests.conftest import ROOT

NEXT = "3.0.0"
_FILES = ("data.yaml", "api.yaml", "pipeline.yaml", "edge.yaml")
_POLICIES = ("policy-api.json", "policy-authorizer.json")

# The right that a change of a property needs, where the update of its type can need several.
_RIGHTS = {
    "AWS::DynamoDB::Table.AttributeDefinitions": ("dynamodb:UpdateTable",),
    "AWS::DynamoDB::Table.GlobalSecondaryIndexes": ("dynamodb:UpdateTable",),
    "AWS::DynamoDB::Table.SSESpecification": ("dynamodb:UpdateTable",),
    "AWS::IAM::Policy.": ("iam:DeleteRolePolicy", "iam:GetRolePolicy", "iam:PutRolePolicy"),  # of a role
    "AWS::Lambda::Alias.": ("lambda:CreateAlias", "lambda:DeleteAlias", "lambda:GetAlias", "lambda:UpdateAlias"),
    "AWS::Lambda::Version.": ("lambda:GetProvisionedConcurrencyConfig", "lambda:PublishVersion"),
    "AWS::KMS::Alias.TargetKeyId": ("kms:UpdateAlias",),
    "AWS::KMS::Key.Description": ("kms:UpdateKeyDescription",),
    "AWS::KMS::Key.KeyPolicy": ("kms:PutKeyPolicy",),
    "AWS::KMS::Key.MultiRegion": (),  # no right is enough to change it
    "AWS::WAFv2::WebACLAssociation.": (
        "wafv2:AssociateWebACL",
        "wafv2:DisassociateWebACL",
        "wafv2:GetWebACLForResource",
    ),
}

Template = Mapping[str, Any]
Right = tuple[str, str]  # an action, and the resource as the template writes it


@dataclass(frozen=True)
class Version:
    """A version and its templates and policies by their files' names; what a version did not have yet is empty."""

    name: str
    templates: Mapping[str, Template]

    def resources(self, file: str) -> Mapping[str, Any]:
        resources: Mapping[str, Any] = self.templates[file].get("Resources", {})
        return resources


def git(*arguments: str, root: Path = ROOT) -> bytes:
    command = ["git", "-c", "safe.directory=*", *arguments]  # CI runs as root in a folder of another user
    return subprocess.run(command, cwd=root, check=True, capture_output=True).stdout


def history(root: Path = ROOT) -> list[tuple[str, str]]:
    """Return the versions of CHANGELOG.md with their commits, the oldest first."""
    commits = re.findall(
        r"^## (\d+\.\d+\.\d+) .*\n\nCommit ([0-9a-f]{7,40})\b", (root / "CHANGELOG.md").read_text(), re.M
    )
    return commits[::-1]


def released(name: str, commit: str, root: Path = ROOT) -> Version:
    """Return a version as it stands in the history; fail with a sentence where the clone lacks it."""
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}", root=root)
    except (OSError, subprocess.CalledProcessError):
        pytest.fail(
            f"This clone lacks commit {commit} of version {name}, which the templates are held against: it is shallow,"
            " or no clone. Run 'git fetch --unshallow', or have CI clone with its whole history.",
            pytrace=False,
        )
    files = git("ls-tree", "-r", "--name-only", commit, root=root).decode().splitlines()

    def read(file: str) -> str:
        return git("show", f"{commit}:{file}", root=root).decode() if file in files else "{}"

    return _version(name, read)


def present() -> Version:
    """Return the version that this folder holds."""
    return _version(NEXT, lambda file: (ROOT / file).read_text())


def steps(name: str) -> str:
    """Return the page's section on the upgrade to a version, "" without one."""
    page = (ROOT / "infra" / "README.md").read_text().partition("\n## Upgrading\n")[2].partition("\n## ")[0]
    return page.partition(f"\n### To {name}\n")[2].partition("\n### ")[0]


def pairs() -> Iterator[tuple[Version, Version]]:
    """Yield each version with the one that follows it, the present one last."""
    yield from pairwise([*(released(name, commit) for name, commit in history()), present()])


def unsaid(before: Version, after: Version, page: str) -> list[str]:
    """Return a sentence for each thing that the upgrade needs and the page does not name in backticks."""
    names_on_page = {*re.findall(r"`([^`]+)`", page)}
    requirements = [
        *_list_gained(before, after),
        *_lacking(before, after),
        *_beyond(before, after),
        *_beyond(after, before),
    ]
    requirements += [*_list_changed_data(before, after), *_parameters(before, after), *_edge(before, after)]
    return [*_impossible(before, after), *(why for names, why in requirements if not {*names} <= names_on_page)]


def _version(name: str, read: Callable[[str], str]) -> Version:
    templates = {file: parse_template(read(f"infra/deploy/{file}")) for file in _FILES}
    policies = {file: json.loads(read(f".chalice/{file}")) for file in _POLICIES}
    return Version(name, {**templates, **policies})


def _rights(statements: list[Mapping[str, Any]]) -> set[Right]:
    return {
        (action, json.dumps(resource, sort_keys=True))
        for statement in statements
        for action in each(statement["Action"])
        for resource in each(statement["Resource"])
    }


def _of_pipeline(version: Version, name: str) -> set[Right]:
    """Return the rights of a role of the pipeline, or those that its boundary leaves."""
    properties = version.resources("pipeline.yaml")[name]["Properties"]
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [properties])]
    return {right for document in documents for right in _rights(document["Statement"])}


Asked = Iterator[tuple[tuple[str, ...], str]]  # what the page must name, and the sentence where it does not


def _list_gained(before: Version, after: Version) -> Asked:
    """Yield the rights for which the pipeline's stack must be deployed by hand, before all else."""
    for name in ("DeployRole", "ServiceRole", "Boundary"):
        for action, resource in sorted(_of_pipeline(after, name) - _of_pipeline(before, name)):
            yield (action,), f"{name} gains {action} on {resource}: the pipeline's stack must be deployed first."


def _lacking(before: Version, after: Version) -> Asked:
    """Yield the rights that the stacks' changes need and CloudFormation's role of before lacks."""
    role = {action for action, _ in _of_pipeline(before, "ServiceRole")}
    for path, part, kind in _changes(before, after, "data.yaml"):
        for right in _list_needed(kind, part, "update" if part else "create"):
            if right not in role:
                yield (right,), f"The change of {path} needs {right}, which the service role of before lacks."
    types = {resource.get("Type") for resource in before.resources("api.yaml").values()}
    for name, resource in after.resources("api.yaml").items():
        if (kind := resource.get("Type")) and kind not in types:
            for right in sorted({*_list_needed(kind, "", "create"), *_list_needed(kind, "", "delete")} - role):
                yield (right,), f"{name} is the first {kind} and needs {right}, which the service role of before lacks."


def _list_needed(kind: str, part: str, change: str) -> tuple[str, ...]:
    """Return the rights that CloudFormation's handler of a type has for a change, but for those of other services."""
    if (rights := _RIGHTS.get(f"{kind}.{part}")) is not None:
        return rights
    permissions = _schema(kind).get("handlers", {}).get(change, {}).get("permissions", ())
    service = permissions[0].partition(":")[0] if permissions else ""
    return tuple(right for right in permissions if right.partition(":")[0] == service)


def _schema(kind: str) -> Mapping[str, Any]:
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # takes a second, in each process that collects tests

    schema: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    return schema


def _beyond(limit: Version, functions: Version) -> Asked:
    """Yield the rights that functions of one version use and the boundary of the other does not allow."""
    boundary = [(action, _pattern(resource)) for action, resource in _of_pipeline(limit, "Boundary")]
    used = {right for file in _POLICIES for right in _rights(functions.templates[file]["Statement"])}
    for action, resource in sorted(used):
        name = _pattern(resource)
        if not any(action == allowed_action and fnmatchcase(name, pattern) for allowed_action, pattern in boundary):
            below = re.findall(r"table/[^/]+/(.+)", name)
            sentence = f"The functions of {functions.name} use {action} on {name}"
            yield (action, *below), f"{sentence}, which the boundary of {limit.name} does not allow."


def _pattern(resource: str) -> str:
    """Return a resource with the same names for what the templates name otherwise: the table, the key, the log."""
    pattern = json.loads(resource)
    if "Fn::Sub" not in pattern:
        return "log-group:tunnel-edge-api-x:*" if "Fn::GetAtt" in pattern else "key/x"
    text = pattern["Fn::Sub"].replace("${TableName}", "tunnel-edge").replace("edge-${Environment}", "edge")
    return re.sub(r"^.*:(?=table/|key/|log-group:)", "", text)


def _changes(before: Version, after: Version, file: str) -> Iterator[tuple[str, str, str]]:
    """Yield each change of a stack: its place, the property, "" for a whole resource, and the resource's type."""
    old, new = before.resources(file), after.resources(file)
    for name in sorted(old.keys() | new.keys()):
        was, is_now = old.get(name, {}), new.get(name, {})
        kind = (is_now or was)["Type"]
        if not (was and is_now):
            yield name, "", kind
            continue
        properties = was["Properties"].keys() | is_now["Properties"].keys()
        for part in sorted(properties):
            if was["Properties"].get(part) != is_now["Properties"].get(part):
                yield f"{name}.{part}", part, kind


def _list_changed_data(before: Version, after: Version) -> Asked:
    for path, _, _ in _changes(before, after, "data.yaml"):
        yield (path,), f"{path} of the data stack changes with the code: it must be deployed by itself, before it."


def _impossible(before: Version, after: Version) -> Iterator[str]:
    """Yield the changes that no page can excuse.

    These are the loss or replacement of a resource that holds data, and two changes of indexes in one update.
    """
    changed_indexes = indexes.names(before.templates["data.yaml"]) ^ indexes.names(after.templates["data.yaml"])
    if len(changed_indexes) > 1:
        yield f"{', '.join(sorted(changed_indexes))}: CloudFormation never changes several indexes in one update."
    for path, part, kind in _changes(before, after, "data.yaml"):
        schema = _schema(kind)
        fixed = (*schema.get("createOnlyProperties", ()), *schema.get("conditionalCreateOnlyProperties", ()))
        if f"/properties/{part}" in fixed:
            yield f"{path} can never change: CloudFormation would make another {kind}."
        elif path in before.resources("data.yaml") and path not in after.resources("data.yaml"):
            yield f"{path} is gone from the data stack, which only ever adds."


def _parameters(before: Version, after: Version) -> Asked:
    for file in _FILES:
        old, new = before.templates[file].get("Parameters", {}), after.templates[file].get("Parameters", {})
        for name in sorted(new.keys() - old.keys()):
            if "Default" not in new[name]:
                yield (name,), f"{file} asks for {name}, which no earlier deployment has given."


def _edge(before: Version, after: Version) -> Asked:
    if before.resources("edge.yaml") != after.resources("edge.yaml"):
        yield (
            ("infra/deploy/edge.yaml",),
            "The edge's role changes: its stack must be deployed, and when is to be said.",
        )
