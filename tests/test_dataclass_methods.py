"""Dataclasses as they are in the package do what those of the sources do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

# Prints, for every dataclass, what can be told of it from outside.
TELL = """
import dataclasses, importlib, inspect, json, pkgutil, re, chalicelib

def tried(action):
    try:
        return repr(action())
    except (AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"

def told(cls):
    parameters = inspect.signature(cls).parameters.values()
    made, same, other = (cls(**{it.name: f"{seed} {it.name}" for it in parameters}) for seed in "aab")
    needed = {it.name: 1 for it in parameters if it.default is it.empty}
    least, again = cls(**needed), cls(**needed)
    fields = dataclasses.fields(cls)
    def change(): made.__setattr__(fields[0].name if fields else "x", 1)
    def remove(): made.__delattr__(fields[0].name if fields else "x")
    def add(): made.x = 1
    return {
        "parameters": [(it.name, str(it.kind), it.default is it.empty) for it in parameters],
        "fields": [(it.name, str(it.type), it.kw_only, it.compare, it.repr, it.hash) for it in fields],
        "doc": cls.__doc__, "match": cls.__match_args__,
        "shown": tried(lambda: made) if cls.__repr__ is not object.__repr__ else "",
        "held": dataclasses.asdict(made), "least": tried(lambda: vars(least)),
        "own": [getattr(least, it.name) is getattr(again, it.name) for it in fields],
        "equal": [made == same, made == other, made == 1, least == again],
        "hash": tried(lambda: hash(made) == hash(same)), "hashed": tried(lambda: hash(least) == hash(again)),
        "changed": tried(change), "removed": tried(remove), "added": tried(add),
        "replaced": tried(lambda: vars(dataclasses.replace(made, **{fields[0].name: 2} if fields else {}))),
        "lacking": tried(cls) if needed else "", "unknown": tried(lambda: cls(**needed, unknown=1)),
    }

found = {}
for module in pkgutil.walk_packages(chalicelib.__path__, "chalicelib."):
    for cls in vars(importlib.import_module(module.name)).values():
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module.name:
            found[f"{cls.__module__}.{cls.__qualname__}"] = told(cls)
print(re.sub(" at 0x[0-9a-f]+", "", json.dumps(found, default=repr)))
"""


@pytest.fixture(scope="module")
def expanded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("expanded")
    shutil.copytree(ROOT / "chalicelib", folder / "chalicelib", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "infra.deploy.dataclass_methods", folder], cwd=ROOT, check=True)
    return folder


def describe_dataclasses(folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", TELL], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return dict(json.loads(process.stdout))


def test_a_dataclass_of_the_package_is_that_of_the_sources(expanded: Path) -> None:
    package_classes, source_classes = describe_dataclasses(expanded), describe_dataclasses(ROOT)
    assert len(package_classes) > 100
    for name, description in source_classes.items():
        assert package_classes[name] == description, name
    assert package_classes.keys() == source_classes.keys()


def test_its_methods_are_in_the_byte_code(expanded: Path) -> None:
    script = (
        "import builtins; made = []; exec_ = builtins.exec;"
        "builtins.exec = lambda code, *rest: isinstance(code, str) and made.append(code) or exec_(code, *rest);"
        "from chalicelib import routes; print(sum('__dataclass' in it for it in made))"
    )
    counted = [
        int(subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, capture_output=True).stdout)
        for folder in (expanded, ROOT)
    ]
    assert counted[0] < counted[1] / 20


def test_functions_have_neither_docstrings_nor_annotations_but_classes_have(expanded: Path) -> None:
    script = (
        "from chalicelib.model.accounts.accounts import Account; from chalicelib.storage.records import item_keys;"
        "build = item_keys.build_latest; print(build.__doc__, build.__annotations__, build('s', 'i'),"
        " bool(Account.__doc__), bool(Account.__annotations__))"
    )
    process = subprocess.run([sys.executable, "-c", script], cwd=expanded, check=True, capture_output=True, text=True)
    assert process.stdout == "None {} ('s', 'i') True True\n"


def test_an_error_is_told_with_the_lines_of_the_sources(expanded: Path) -> None:
    script = "from chalicelib.model.accounts import accounts; accounts.Account(unknown=1)"
    process = subprocess.run([sys.executable, "-c", script], cwd=expanded, check=False, capture_output=True, text=True)
    assert process.stderr.endswith("Account.__init__() got an unexpected keyword argument 'unknown'\n")
