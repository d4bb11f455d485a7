"""Building wheels reproducibly, and installing them into new environments."""

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from email.parser import Parser
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import ROOT, CommandError
from infra.deploy import sbom


def build(source: Path, python: Path, folder: Path) -> Path:
    """Write the wheel of a project into a folder, and return its path. Raises CommandError."""
    with tempfile.TemporaryDirectory() as parent:
        copy = Path(parent) / source.name
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        command = [str(python), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(f"The wheel could not be built:\n{done.stdout}{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_twice(build_wheel: Callable[[Path], Path], folder: Path, max_size: int) -> Path:
    """Build a wheel into an emptied folder, and compare it with a second build. Return its path.

    Raises CommandError if the builds differ, or if the wheel has more than `max_size` bytes.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheel = build_wheel(folder)
    with tempfile.TemporaryDirectory() as again:
        if build_wheel(Path(again)).read_bytes() != wheel.read_bytes():
            raise CommandError("Two builds of the wheel differ, so the build is not reproducible.")
    size = wheel.stat().st_size
    if size > max_size:
        raise CommandError(f"{wheel.name} has {size:,} bytes, more than {max_size:,}.")
    print(f"{wheel.relative_to(ROOT)}: {size:,} bytes")
    return wheel


def write_bill(wheel: Path, python: Path) -> None:
    """Write the software bill of materials of a wheel beside the wheel.

    The packages that the wheel requires are read from the environment of `python`.
    """
    (packages,) = python.parent.parent.glob("lib/python3*/site-packages")
    installed = {
        canonicalize_name(distribution.name): distribution
        for distribution in metadata.distributions(path=[str(packages)])
    }
    name = wheel.name.partition("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        (described,) = [file for file in archive.namelist() if file.endswith(".dist-info/METADATA")]
        texts = Parser().parsestr(archive.read(described).decode()).get_all("Requires-Dist", [])
    shipped: dict[str, Distribution] = {}
    while texts:
        required = Requirement(texts.pop())
        key = canonicalize_name(required.name)
        if key not in shipped and (not required.marker or required.marker.evaluate({"extra": ""})):
            shipped[key] = installed[key]
            texts += installed[key].requires or []
    sbom.write_bill(name, map(sbom.describe, shipped.values()), wheel.parent / f"{wheel.parent.name}-{sbom.FILE}")


def install(wheel: Path, python: Path, environment: Path) -> Path:
    """Install a wheel in a new environment. `python` is the Python of an environment that has the wheel's dependencies.

    Return the folder of its programs.
    """
    uv = str(ROOT / ".venv" / "bin" / "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", str(python), str(environment)], check=True)
    installed = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--compile-bytecode"]
    subprocess.run([*installed, "--python", str(environment / "bin" / "python"), str(wheel)], check=True)
    (packages,) = environment.glob("lib/python3*/site-packages")
    (pinned,) = python.parent.parent.glob("lib/python3*/site-packages")
    (packages / "pinned.pth").write_text(f"{pinned.resolve()}\n")
    return environment / "bin"


def write(file: Path, text: str) -> None:
    """Write a file atomically, because several builds may run at once. Skip a file that already has this text."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        new = file.with_name(f"{file.name}.{os.getpid()}")
        new.write_text(text, encoding="utf-8")
        new.replace(file)
