"""Sizes and names in the code: files in a folder, lines in a file and in a function body, names that occur twice."""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

REQUEST_SHAPES = {"Create", "Change"}  # each resource has its own


def list_tracked(root: Path, *patterns: str) -> list[str]:
    """Return the files of the repository that match the patterns, the ones not yet added included."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    files = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({file for file in files if (root / file).exists()})


def crowded_folders(files: Iterable[str], limit: int) -> dict[str, int]:
    """Return the folders with more than `most` Python files, without `__init__.py`."""
    counts = Counter(str(PurePosixPath(file).parent) for file in files if not file.endswith("__init__.py"))
    return {folder: count for folder, count in counts.items() if count > limit}


def long_files(sources: dict[str, str], limit: int) -> dict[str, int]:
    """Return the files with more than `most` lines."""
    lengths = {file: source.count("\n") for file, source in sources.items()}
    return {file: length for file, length in lengths.items() if length > limit}


def long_bodies(sources: dict[str, str], limit: int) -> dict[str, int]:
    """Return the functions with bodies of more than `most` lines, without their docstrings."""
    lengths = {}
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (lines := _body(node)) > limit:
                lengths[f"{file}:{node.lineno} {node.name}"] = lines
    return lengths


def repeated_classes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Return the names that more than one class has, with their files."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and node.name not in REQUEST_SHAPES:
                files[node.name].append(file)
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def repeated_files(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that more than one file has, `__init__.py` and `__main__.py` left out."""
    paths_by_name: dict[str, list[str]] = defaultdict(list)
    for file in files:
        if not file.endswith(("__init__.py", "__main__.py")):
            paths_by_name[PurePosixPath(file).name].append(file)
    return {name: paths for name, paths in paths_by_name.items() if len(paths) > 1}


def imports_of_tests(sources: dict[str, str]) -> list[str]:
    """Return the test files that import another test's module."""
    pattern = re.compile(r"^from tests\.(?:[\w.]*\.)?test_\w+ import|^from tests[\w.]* import test_", re.M)
    return sorted(file for file, source in sources.items() if pattern.search(source))


def find_mirrored(product: Iterable[str], tests: Iterable[str]) -> set[str]:
    """Return the files of the product that have a test at the mirrored path."""
    paths = {PurePosixPath(test) for test in tests}
    return {
        file
        for file in product
        if PurePosixPath("tests", *PurePosixPath(file.removeprefix("chalicelib/")).parts).with_name(
            f"test_{PurePosixPath(file).name}"
        )
        in paths
    }


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines from the first statement after the docstring to the end."""
    first = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (node.end_lineno or 0) - first[0].lineno + 1 if first else 0
