"""`make openapi` ends with a sentence if a declaration lacks something: with a planted module."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

_OBJECT = '''"""A module."""
from dataclasses import replace
from chalicelib.model.edges.modules import compression
MODULE = replace(compression.MODULE, name="planted", budget={budget})
'''
_SHAPE = '''"""A module."""
from typing import Annotated
from chalicelib.http.module import Enabled, Module
from chalicelib.model.edges.modules.planted import MODULE
from chalicelib.schema.rules import max_bytes
class Planted(Enabled):
    """Is planted."""
    field: Annotated[str, max_bytes(3)] = ""
    {text}
MODULES = tuple(Module(path=path, shape=Planted, stored=MODULE.stored) for path in MODULE.paths)
'''
_BUILD = """import runpy, sys
import chalicelib.model.edges.modules, chalicelib.modules
chalicelib.model.edges.modules.__path__.append(sys.argv[1])
chalicelib.modules.__path__.append(sys.argv[2])
runpy.run_module("infra.build.openapi", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("budget", "text", "sentence"),
    [
        (
            100,
            '"A field."',
            'infra/build/openapi/examples.json lacks "replace" of "https_edge_route_planted": add the request of '
            "PUT /edges/https/{edge_id}/routes/{id}/planted.",
        ),
        (60, '"A field."', "The module planted exceeds its budget of 60 characters by 29: lower its limits."),
        (100, "", "The field Planted.field has no description: add a docstring below the field in its class."),
    ],
)
def test_the_build_of_the_document_fails_with_a_sentence(tmp_path: Path, budget: int, text: str, sentence: str) -> None:
    """Plant the module as two files, which the declarations' packages find beside their own."""
    for folder, content in (("objects", _OBJECT.format(budget=budget)), ("shapes", _SHAPE.format(text=text))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "planted.py").write_text(content)
    folders = [str(tmp_path / name) for name in ("objects", "shapes")]
    process = subprocess.run([sys.executable, "-c", _BUILD, *folders], cwd=ROOT, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (1, f"{sentence}\n")
