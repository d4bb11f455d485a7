"""The commands of infra/README.md as an operator pastes them, with stand-ins that write down how they are called."""

import re
import subprocess
from itertools import pairwise
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from chalicelib.__main__ import main
from infra.deploy.templates import parse_template
from tests.conftest import ROOT
from tests.needs import need

README = (ROOT / "infra" / "README.md").read_text()
SECTIONS = dict(section.split("\n", 1) for section in README.split("\n## ")[1:])
FIRST = "From an empty account to a URL"
STAND_IN = """#!/bin/sh
call=$(printf '%s\\037' "${0##*/}" "$@")
printf '%s\\036' "$call" >> "$CALLS"
case $call in *next_page_uri*) ;; *) echo stub ;; esac
"""
STAND_INS = ("aws", "curl", "gh", "jq", "make", "ssh-keygen", ".venv/bin/python")
RENAMED = {"notification-endpoint": "endpoint"}  # by the CLI, whose --endpoint-url is another thing
COMMON = ("output", "query", "region")  # options of every command
BY_CHALICE = {"RestAPIId"}  # outputs that no template of ours names
SESSION = botocore.session.get_session()
Calls = list[list[str]]


def commands(section: str) -> list[str]:
    """Return the shell blocks of a section, then what stands as a command in its text."""
    text, *blocks = re.split(r"^ *```sh\n(.*?)^ *```$", section, flags=re.M | re.S)
    texts = [text, *blocks[1::2]]
    return [*blocks[::2], *re.findall(r"`((?:aws|gh|TABLE_NAME=[^\s`]+) [^`]+)`", "".join(texts))]


@pytest.fixture(scope="module", params=[name for name, section in SECTIONS.items() if commands(section)])
def calls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Return the calls of a section, in a shell that only began as the page says."""
    need("bash")
    folder = tmp_path_factory.mktemp("procedure")
    (folder / "infra").symlink_to(ROOT / "infra")
    for name in STAND_INS:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(STAND_IN)
        file.chmod(0o755)
    script = "\n".join([commands(SECTIONS[FIRST])[0], *commands(SECTIONS[request.param])])
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "CALLS": str(folder / "calls")}
    result = subprocess.run(
        ["bash", "-euc", script], cwd=folder, env=environment, input="said\n" * 9,
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [call.split("\x1f")[:-1] for call in (folder / "calls").read_text().split("\x1e")[:-1]]


def filter_calls(calls: Calls, *command: str) -> Calls:
    return [call[len(command) :] for call in calls if tuple(call[: len(command)]) == command]


def options(call: list[str]) -> dict[str, str]:
    """Options of the AWS CLI with their values, but for those that every command has."""
    values = {word[2:].removeprefix("no-"): value for word, value in pairwise([*call, ""]) if word.startswith("--")}
    return {RENAMED.get(name, name): value for name, value in values.items() if name not in COMMON}


def operation(service: str, name: str, rest: list[str]) -> tuple[str, list[str]]:
    """Return the operation behind a command of the AWS CLI, as botocore knows it, and the options."""
    if name == "wait":
        waiters: Any = SESSION.get_waiter_model(service)
        return waiters.get_waiter(rest[0].title().replace("-", "")).operation, rest[1:]
    (operation_name,) = [
        operation_name
        for operation_name in SESSION.get_service_model(service).operation_names
        if xform_name(operation_name, "-") == name
    ]
    return operation_name, rest


def test_what_is_asked_of_the_cloud_is_known_to_it(calls: Calls) -> None:
    for service, command, *rest in filter_calls(calls, "aws"):
        if (service, command) == ("cloudformation", "deploy"):  # the CLI's own
            continue
        name, words = operation(service, command, rest)
        shape = SESSION.get_service_model(service).operation_model(name).input_shape
        documentation = {xform_name(member, "-"): of.documentation for member, of in shape.members.items()}
        assert options(words).keys() <= documentation.keys()
        assert {xform_name(member, "-") for member in shape.required_members} <= options(words).keys()
        for option, value in options(words).items():
            assert not value.startswith("alias/") or "alias" in documentation[option].lower(), name


def test_the_outputs_that_are_asked_for_are_there(calls: Calls) -> None:
    templates = {"api": "api.yaml", "data": "data.yaml", "pipeline": "pipeline.yaml"}
    for call in filter_calls(calls, "aws", "cloudformation", "describe-stacks"):
        stack = call[call.index("--stack-name") + 1]
        (output,) = re.findall("OutputKey=='(.*?)'", call[call.index("--query") + 1])
        (file,) = [file for part, file in templates.items() if part in stack.split("-")]
        outputs = parse_template((ROOT / "infra" / "deploy" / file).read_text())["Outputs"].keys()
        assert output in outputs | BY_CHALICE, stack


def test_what_is_deployed_has_the_parameters_that_are_given(calls: Calls) -> None:
    templates = [parse_template((ROOT / "infra" / "deploy" / file).read_text()) for file in ("api.yaml", "data.yaml")]
    parameters = {name for template in templates for name in template["Parameters"]}
    for call in filter_calls(calls, "python", "-m", "infra.deploy"):
        assert {word.partition("=")[0] for word in call if re.match(r"\w+=", word)} <= parameters


def test_the_commands_of_the_operator_are_there(calls: Calls) -> None:
    for words in filter_calls(calls, "python", "-m", "chalicelib"):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*words[:2], "--help"])


def test_what_the_pipeline_reads_is_set_in_its_environment(calls: Calls) -> None:
    for kind in ("secret", "variable"):
        for call in filter_calls(calls, "gh", kind, "set"):
            assert call[call.index("--env") + 1] == "production"


def test_what_an_import_is_told_of_the_data_stack_lacks_only_its_outputs(calls: Calls) -> None:
    template = parse_template((ROOT / "infra" / "deploy" / "data.yaml").read_text())
    for call in filter_calls(calls, "aws", "cloudformation", "create-change-set"):
        import_template = parse_template(options(call)["template-body"])
        assert {**import_template, "Outputs": template["Outputs"]} == template
        assert "Outputs" not in import_template
