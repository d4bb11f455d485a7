"""The places that the pages name are there."""

import re

import pytest

from chalicelib.model.edges.enforced import enforced_modules
from tests.conftest import ROOT

CODE = "\n".join(file.read_text() for folder in ("edge", "chalicelib") for file in (ROOT / folder).rglob("*.py"))
STEPS = [
    line
    for line in (ROOT / "docs" / "edge-internals.md").read_text().splitlines()
    if line.startswith("| ") and "` → `" in line
]
PLAN = (
    (ROOT / "docs" / "edge-internals.md")
    .read_text()
    .partition("| Folder | Files | What they do |")[2]
    .partition("\n\n")[0]
    .splitlines()[2:]
)


@pytest.mark.parametrize("step", STEPS)
def test_each_step_to_a_decision_names_a_file_or_function(step: str) -> None:
    for name in re.findall(r"`([^`]+)`", step):
        assert (ROOT / name).is_file() or re.search(rf"def {name.rpartition('.')[2]}\(", CODE), name


def test_the_plan_of_the_edge_names_files_of_it() -> None:
    files = {file.stem for file in (ROOT / "edge").rglob("*.py")}
    words = {name for line in PLAN for name in re.findall(r"`(\w+)`", line)}
    assert words <= files
    declared = (module.configures_route or module.built_by for module in enforced_modules.EVERY)
    of_modules = {path.split(".")[-2] for path in declared if path}  # a module's declaration names its file
    folders = (ROOT / "edge" / name for name in ("plan", "envoy", "serving", "control"))
    assert {file.stem for folder in folders for file in folder.rglob("[a-z]*.py")} <= words | of_modules
