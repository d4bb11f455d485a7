"""Software bills of materials in CycloneDX: the packages in a program, with versions and licenses.

`python -m infra.deploy.sbom FOLDER` writes FOLDER/image-sbom.json for the image of the edge. It reads the packages from
FOLDER/site-packages and from FOLDER/status (dpkg's list), which must be copied from the image before. The command runs
without any installed package.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

FILE, IMAGE_FILE = "sbom.json", "image-sbom.json"
_TOOL = "chalice"  # Chalice copies its runtime into the package without metadata, so the bill must name it separately


def write(folder: Path, out: Path) -> None:
    """Write the bill of materials of an unpacked package into a folder. Equal packages have equal bills."""
    shipped = [*metadata.distributions(path=[str(folder)]), metadata.distribution(_TOOL)]
    write_bill("tunnel-edge", map(describe, shipped), out / FILE)


def write_bill(name: str, components: Iterable[dict[str, Any]], file: Path) -> None:
    """Write a bill of materials. `name` is the described program. The order of `components` has no effect."""
    ordered = sorted(components, key=lambda component: str(component["purl"]))
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": name, "bom-ref": name}},
        "components": ordered,
        "dependencies": [{"ref": name, "dependsOn": [component["bom-ref"] for component in ordered]}],
    }
    file.write_text(json.dumps(bill, indent=1) + "\n")


def describe(distribution: Distribution) -> dict[str, Any]:
    """Return the entry of a Python package in a bill of materials."""
    name, version = distribution.metadata["Name"], distribution.version
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    expression = distribution.metadata.json.get("license_expression")
    licenses = {"licenses": [{"expression": expression}]} if expression else {}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **licenses}


def write_image(folder: Path) -> None:
    """Write the bill of materials of the edge's image, from its Python packages and its list of Debian packages."""
    python = metadata.distributions(path=[str(folder / "site-packages")])
    components = [*map(describe, python), *_describe_debian((folder / "status").read_text())]
    write_bill("tunnel-edge-image", components, folder / IMAGE_FILE)


def _describe_debian(status: str) -> Iterator[dict[str, Any]]:
    """Yield the components of the installed packages in dpkg's list."""
    for paragraph in status.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{version}?arch={fields['Architecture']}"
            yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


if __name__ == "__main__":
    write_image(Path(sys.argv[1]))
