"""The way up from each version to the next: nothing in the templates asks for what the page does not say."""

import hashlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import upgrades
from tests.cloud.upgrades import Version
from tests.conftest import ROOT

Change = Callable[[dict[str, Any]], object]


def test_the_page_says_what_each_version_asks_for() -> None:
    for before, after in upgrades.pairs():
        assert upgrades.unsaid(before, after, upgrades.steps(after.name)) == [], f"To {after.name}"


def test_every_version_of_the_changelog_is_one_of_the_history_after_the_one_before() -> None:
    commits = [commit for _, commit in upgrades.history()]
    assert upgrades.history()[0][0] == "1.0.0"
    for earlier, later in zip(commits, [*commits[1:], "HEAD"], strict=True):
        upgrades.git("merge-base", "--is-ancestor", earlier, later)


# The sections of released versions no longer change: what is added to one belongs to the next release.
RELEASED = {
    "2.0.0": "1e8ba82af6d3ae55",
    "1.0.0": "516e1e72341d75ab",
}


@pytest.mark.parametrize("name", RELEASED)
def test_the_changelog_of_a_release_stays(name: str) -> None:
    section = (ROOT / "CHANGELOG.md").read_text().partition(f"\n## {name} - ")[2].partition("\n## ")[0]
    assert hashlib.sha256(section.encode()).hexdigest()[:16] == RELEASED[name]


def apply_change(change: Change) -> Version:
    """Return the present version with a change of its templates."""
    templates = deepcopy(dict(upgrades.present().templates))
    change(templates)
    return Version(upgrades.NEXT, templates)


def of(templates: dict[str, Any], file: str, name: str) -> Any:
    return templates[file]["Resources"][name]["Properties"]


def statements(templates: dict[str, Any], name: str) -> Any:
    properties = of(templates, "pipeline.yaml", name)
    return (properties.get("Policies") or [properties])[0]["PolicyDocument"]["Statement"]


def without_logs(boundary: list[Any]) -> None:
    boundary[:] = [statement for statement in boundary if "logs:PutLogEvents" not in statement["Action"]]


ALLOW = {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": "*"}
INDEX = {"IndexName": "by-owner"}
QUEUE = {"Type": "AWS::SQS::Queue", "Properties": {}}

# A change, and what the page must name for it.
CHANGES: dict[str, tuple[Change, set[str]]] = {
    "a right of the deployer": (lambda files: statements(files, "DeployRole").append(ALLOW), {"sqs:SendMessage"}),
    "a right of the service role": (lambda files: statements(files, "ServiceRole").append(ALLOW), {"sqs:SendMessage"}),
    "a right of the boundary": (lambda files: statements(files, "Boundary").append(ALLOW), {"sqs:SendMessage"}),
    "a right of a function": (lambda files: files["policy-api.json"]["Statement"].append(ALLOW), {"sqs:SendMessage"}),
    "a right that the boundary loses and the functions still use": (
        lambda files: without_logs(statements(files, "Boundary")),
        {"logs:CreateLogStream", "logs:PutLogEvents"},
    ),
    "another resource of a function": (
        lambda files: files["policy-api.json"]["Statement"].append(
            {"Action": "dynamodb:Query", "Resource": {"Fn::Sub": "arn:aws:dynamodb:x:1:table/${TableName}/index/other"}}
        ),
        {"dynamodb:Query", "index/other"},
    ),
    "an index of the table": (
        lambda files: of(files, "data.yaml", "Table")["GlobalSecondaryIndexes"].append(INDEX),
        {"Table.GlobalSecondaryIndexes"},
    ),
    "the key's policy": (
        lambda files: of(files, "data.yaml", "Key")["KeyPolicy"]["Statement"].pop(),
        {"Key.KeyPolicy", "kms:PutKeyPolicy"},
    ),
    "another resource that holds data": (
        lambda files: files["data.yaml"]["Resources"].update(Queue=QUEUE),
        {"Queue", "sqs:CreateQueue", "sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:ListQueueTags", "sqs:TagQueue"},
    ),
    "a parameter without a default": (
        lambda files: files["api.yaml"]["Parameters"].update(Hook={"Type": "String"}),
        {"Hook"},
    ),
    "the edge's role": (lambda files: of(files, "edge.yaml", "EdgeRole").update(Path="/"), {"infra/deploy/edge.yaml"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_fails_until_the_page_names_all_that_it_asks_for(name: str) -> None:
    change, names = CHANGES[name]
    before, after = upgrades.present(), apply_change(change)
    unchanged = {*upgrades.unsaid(before, before, "")}
    assert {*upgrades.unsaid(before, after, " ".join(f"`{name}`" for name in names))} <= unchanged
    for missed in names:
        assert {*upgrades.unsaid(before, after, " ".join(f"`{name}`" for name in names - {missed}))} - unchanged, missed


def test_a_new_kind_of_resource_of_the_api_needs_the_rights_to_make_and_to_delete_it() -> None:
    after = apply_change(lambda files: files["api.yaml"]["Resources"].update(Queue=QUEUE))
    sentences = upgrades.unsaid(upgrades.present(), after, "")
    assert {"sqs:CreateQueue", "sqs:DeleteQueue"} <= {word.strip(",") for line in sentences for word in line.split()}


@pytest.mark.parametrize(
    "change",
    [
        lambda files: of(files, "data.yaml", "Table").update(TableName="other"),
        lambda files: of(files, "data.yaml", "Table")["KeySchema"].pop(),
        lambda files: files["data.yaml"]["Resources"].pop("KeyAlias"),
        lambda files: of(files, "data.yaml", "Table")["GlobalSecondaryIndexes"].extend(
            [INDEX, {"IndexName": "by-name"}]
        ),
    ],
)
def test_no_page_can_excuse_the_loss_of_what_holds_data(change: Change) -> None:
    page = "`Table.TableName` `Table.KeySchema` `Table.GlobalSecondaryIndexes` `KeyAlias` `dynamodb:UpdateTable`"
    before = upgrades.present()
    assert [
        line for line in upgrades.unsaid(before, apply_change(change), page) if "never" in line or "only ever" in line
    ]


def test_a_shallow_clone_says_what_it_lacks(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    upgrades.git("init", "-q", str(origin))
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for _ in range(2):
        upgrades.git(*author, "commit", "-q", "--allow-empty", "-m", "A version", root=origin)
    first = upgrades.git("rev-parse", "HEAD~1", root=origin).decode().strip()
    upgrades.git("clone", "-q", "--depth", "1", origin.as_uri(), str(clone))
    with pytest.raises(
        pytest.fail.Exception, match=rf"^This clone lacks commit {first} of version 1\.0\.0, .*unshallow"
    ):
        upgrades.released("1.0.0", first, clone)
