"""The software bill of materials of a package, in CycloneDX: which libraries it ships, with versions and licenses."""

import json
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

FILE = "sbom.json"
_TOOL = "chalice"  # its runtime is copied into the package without its metadata


def write(folder: Path, out: Path) -> None:
    """Write the bill of an unpacked package into a folder. Equal packages have equal bills."""
    shipped = [*metadata.distributions(path=[str(folder)]), metadata.distribution(_TOOL)]
    components = sorted(map(_component, shipped), key=lambda it: str(it["purl"]))
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tunnel-edge", "bom-ref": "tunnel-edge"}},
        "components": components,
        "dependencies": [{"ref": "tunnel-edge", "dependsOn": [it["bom-ref"] for it in components]}],
    }
    (out / FILE).write_text(json.dumps(bill, indent=1) + "\n")


def _component(distribution: Distribution) -> dict[str, Any]:
    name, version = distribution.metadata["Name"], distribution.version
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    expression = distribution.metadata.json.get("license_expression")
    licenses = {"licenses": [{"expression": expression}]} if expression else {}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **licenses}
