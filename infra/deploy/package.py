"""`make package STAGE=…`: make the Lambda package and the template of the API's stack.

The package is for the version of Python that runs this command, and for the processor architecture that ARCH names. The
same sources give the same bytes. An existing package is made again only if an input has changed.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra import ROOT, CommandError, environments
from infra.deploy import fingerprint, gateway_responses, sbom
from infra.deploy.templates import parse_template

ARCHITECTURES = ("arm64", "x86_64")
MAX_BYTES = 13_841_203  # size limit of deployment.zip: 13.2 MiB
_PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
_SOURCES = ("app.py", "chalicelib", ".chalice", "requirements.txt")
# the templates that cfn-lint checks, besides the generated template of the API's stack
_TEMPLATES = ("data.yaml", "edge.yaml", "fleet.yaml", "pipeline.yaml")
_OPERATOR = {  # files that the package omits, because only the operator's commands need them
    *("chalicelib/operator", "chalicelib/__main__.py"),
    *("chalicelib/model/tenants", "chalicelib/model/migrations.py"),
}
# files that the package omits, because only mypy and compilers read them: type stubs, and headers of C and Cython
_FOR_TOOLS = ("pydantic/mypy.py", "**/*.pyi", "**/*.h", "**/*.pxd")
_NEVER_CHANGED = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold


def main() -> None:
    """Package a stage into build/<stage>. A failure exits with one sentence and status 1."""
    parser = ArgumentParser(prog="make package", description=__doc__)
    parser.add_argument("stage", help="a stage of .chalice/config.json")
    parser.add_argument("--arch", choices=ARCHITECTURES, default=_machine())
    parser.add_argument("--out", type=Path, help="the folder for the package (default: build/<stage>)")
    options = parser.parse_args()
    out = options.out or ROOT / "build" / options.stage
    inputs = fingerprint.compute(options.stage, options.arch)
    archive, is_current = out / "deployment.zip", fingerprint.is_current(out, inputs)
    try:
        if not is_current:
            package(options.stage, options.arch, out)
            _lint(out)
            fingerprint.write(out, inputs)
    except CommandError as error:
        sys.exit(str(error))
    print(f"{archive}: {archive.stat().st_size:,} bytes{', unchanged' if is_current else ''}")


def package(stage: str, arch: str, out: Path) -> None:
    """Make deployment.zip, the SAM template sam.json, and translated.json for CloudFormation. Raises CommandError."""
    if sys.version_info[:2] not in _PYTHONS:
        raise CommandError("Lambda packages are made with Python 3.11 to 3.14: choose one with PYTHON=….")
    config = _config(stage)
    shutil.rmtree(out, ignore_errors=True)
    sources = out / "sources"
    try:
        sources.mkdir(parents=True)
        _print("Making the package with Chalice, which fetches what the functions need …")
        _copy_sources({**config, "lambda_architecture": arch}, sources)
        _run_chalice(stage, sources, out)
    finally:
        shutil.rmtree(sources)
    _print("Compiling it …")
    _rewrite(out / "deployment.zip", out / "package")
    _complete(out)
    if (size := (out / "deployment.zip").stat().st_size) > MAX_BYTES:
        raise CommandError(f"The package has {size:,} bytes, more than the limit of {MAX_BYTES:,}.")


def _machine() -> str:
    return "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


def _config(stage: str) -> dict[str, Any]:
    """Return Chalice's configuration. Raises CommandError if it lacks the stage."""
    config: dict[str, Any] = json.loads((ROOT / ".chalice" / "config.json").read_text())
    deployable = [name for name, settings in config["stages"].items() if "lambda_functions" in settings]
    if stage not in deployable:
        choice = ", ".join(deployable)
        raise CommandError(f"{stage} is not a deployable stage of .chalice/config.json: choose one of {choice}.")
    return config


def _copy_sources(config: dict[str, Any], sources: Path) -> None:
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=_list_ignored)
        else:
            shutil.copy2(ROOT / name, sources / name)
    (sources / ".chalice" / "config.json").write_text(json.dumps(config))


def _list_ignored(folder: str, names: list[str]) -> set[str]:
    """Return the names in a folder that the package does not contain."""
    path = Path(folder).relative_to(ROOT)
    return {name for name in names if name in ("__pycache__", "deployments") or (path / name).as_posix() in _OPERATOR}


def _run_chalice(stage: str, sources: Path, out: Path) -> None:
    chalice = Path(sys.executable).with_name("chalice")
    merged = ROOT / "infra" / "deploy" / "api.yaml"
    environment = {
        "AWS_DEFAULT_REGION": "us-east-1",  # Chalice requires a region, but does not use it
        **os.environ,
        "PIP_DEFAULT_TIMEOUT": f"{environments.SILENCE}",
        "PIP_RETRIES": "0",
    }
    completed = subprocess.run(
        [chalice, "package", "--stage", stage, "--merge-template", merged, out.absolute()],
        cwd=sources, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    output = completed.stdout + completed.stderr
    if completed.returncode or "Could not install" in output:  # with this error, Chalice exits with 0
        if missing := re.search("Could not satisfy the requirement: (.+)", output):  # Chalice prints no reason
            raise CommandError(
                f"{missing[1]} could not be fetched from the registry of Python's packages: "
                "check that this machine is connected, then run make again."
            )
        raise CommandError(f"Chalice could not package the app:\n{output}")


def _rewrite(archive: Path, folder: Path) -> None:
    """Compile the package, and write it again in a reproducible form.

    Lambda cannot store byte code later: its disk is read-only.
    """
    with zipfile.ZipFile(archive) as original:
        original.extractall(folder)
    for file in [file for pattern in _FOR_TOOLS for file in folder.glob(pattern)]:
        file.unlink()
    _compile(folder)
    sbom.write(folder, archive.parent)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(folder).as_posix(), _NEVER_CHANGED)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, file.read_bytes())
    shutil.rmtree(folder)


def _compile(folder: Path) -> None:
    """Compile every module. PYTHON… variables have no effect. Raises CommandError.

    The methods of our dataclasses are generated now: generating them at run time takes a seventh of a cold start.
    """
    path = str(folder.absolute())
    hashed = ["--invalidation-mode", "unchecked-hash", "-s", path, path]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONHASHSEED"] = "0"  # with a random seed, the order of sets in byte code would differ in each build
    others = ["-x", f"^{re.escape(path)}/chalicelib/"]
    for module in (["compileall", "-q", *others, *hashed], ["infra.deploy.dataclass_methods", path]):
        command = [sys.executable, "-m", *module]
        completed = subprocess.run(command, cwd=ROOT, check=False, env=environment, capture_output=True, text=True)
        if completed.returncode:
            raise CommandError(f"The package could not be compiled:\n{completed.stdout}{completed.stderr}")


def _complete(out: Path) -> None:
    """Add the gateway's error responses to the stack's template, and translate the template with SAM."""
    merged = out / "sam.yaml"  # Chalice writes YAML, because api.yaml, which it merges, is YAML
    stack: dict[str, Any] = parse_template(merged.read_text())
    merged.unlink()
    definition = stack["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]
    definition["x-amazon-apigateway-gateway-responses"] = gateway_responses.build_extension()
    _call_aliases(definition)
    stack["Resources"].update(gateway_responses.build_resources())
    (out / "sam.json").write_text(json.dumps(stack, indent=1, sort_keys=True))
    (out / "translated.json").write_text(json.dumps(_translate(stack), indent=1, sort_keys=True))


def _call_aliases(value: Any) -> None:
    """Change an API definition so that the gateway calls the alias of each function that has an alias."""
    for name, child in value.items() if isinstance(value, dict) else ():
        if name in ("uri", "authorizerUri"):
            alias = {"Alias": {"Fn::If": ["HasSnapStart", ":live", ""]}}
            value[name] = {"Fn::Sub": [child["Fn::Sub"].replace(".Arn}/", ".Arn}${Alias}/"), alias]}
        else:
            _call_aliases(child)


def _translate(stack: dict[str, Any]) -> dict[str, Any]:
    # imported here, because this takes a second, which an unchanged package does not need
    from samtranslator.translator.transform import transform

    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("APIHandler", "Authorizer"):  # SAM translates only functions with a URL, so give them a placeholder
        stack["Resources"][name]["Properties"]["CodeUri"] = "s3://bucket/deployment.zip"
    translated: dict[str, Any] = transform(stack, {}, None)
    return translated


def _lint(out: Path) -> None:
    """Check all templates with cfn-lint. Raises CommandError."""
    _print("Checking the templates with cfn-lint …")
    with TemporaryDirectory() as folder:
        for name in ("sam.json", "translated.json"):
            template = json.loads((out / name).read_text())
            _drop_repetitions(template)
            (Path(folder) / name).write_text(json.dumps(template, indent=1, sort_keys=True))
        templates = [*sorted(Path(folder).iterdir()), *(ROOT / "infra" / "deploy" / name for name in _TEMPLATES)]
        command = [Path(sys.executable).with_name("cfn-lint"), *templates]
        completed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if completed.returncode:
        raise CommandError(f"cfn-lint rejects a template:\n{completed.stdout}{completed.stderr}")


def _drop_repetitions(template: Any) -> None:
    """Drop the paths of an API definition whose functions are those of another path.

    CloudFormation's functions are all that cfn-lint checks in such a definition, and their repetitions took half of its
    time.
    """
    properties = template["Resources"]["RestAPI"]["Properties"]
    definition = properties["DefinitionBody" if "DefinitionBody" in properties else "Body"]
    paths = {frozenset(_functions(path)): (name, path) for name, path in reversed(definition["paths"].items())}
    definition["paths"] = dict(paths.values())


def _functions(value: Any) -> Iterator[str]:
    """Yield the calls of CloudFormation's functions in a part of a template, as JSON."""
    match value:
        case dict() if len(value) == 1 and re.match("Fn::|Ref$|Condition$", *value):
            yield json.dumps(value, sort_keys=True)
        case dict():
            for member in value.values():
                yield from _functions(member)
        case list():
            for member in value:
                yield from _functions(member)


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
