"""The bills of materials of a release, compared with what the package, the image and the wheels have."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.build import cli, wheels
from infra.build.terraform import wheel as terraform
from tests.conftest import ROOT, Served

PACKAGE = ROOT / "build" / "dev"


def test_the_bill_has_every_library_of_the_package_and_no_other(deployed_api: Served) -> None:
    bill = json.loads((PACKAGE / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    with zipfile.ZipFile(PACKAGE / "deployment.zip") as package:
        shipped = {name.partition(".dist-info/")[0] for name in package.namelist() if ".dist-info/" in name}
    names_with_versions = {
        f"{component['name'].lower().replace('-', '_')}-{component['version']}" for component in bill["components"]
    }
    assert {name for name in names_with_versions if not name.startswith("chalice-")} == {
        name.lower() for name in shipped
    }
    assert any(name.startswith("chalice-") for name in names_with_versions)
    references = [component["bom-ref"] for component in bill["components"]]
    assert len({*references}) == len(references)
    assert all(re.fullmatch(r"pkg:pypi/[a-z0-9.-]+@[0-9][0-9a-z.]*", reference) for reference in references)
    assert bill["dependencies"] == [{"ref": "tunnel-edge", "dependsOn": references}]


def test_the_bill_of_the_image_has_its_python_and_debian_packages(tmp_path: Path) -> None:
    for name, version in (("Some_Package", "1.2"), ("other", "3")):
        folder = tmp_path / "site-packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    installed = (
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.41-12\nDescription: a\n: b"
    )
    removed_package = "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1"
    (tmp_path / "status").write_text(f"{installed}\n\n{removed_package}\n\n")
    subprocess.run([sys.executable, "-S", "-m", "infra.deploy.sbom", str(tmp_path)], cwd=ROOT, check=True)
    bill = json.loads((tmp_path / "image-sbom.json").read_text())
    purls = ["pkg:deb/debian/libc6@2.41-12?arch=amd64", "pkg:pypi/other@3", "pkg:pypi/some-package@1.2"]
    assert [component["purl"] for component in bill["components"]] == purls
    assert bill["metadata"]["component"]["name"] == "tunnel-edge-image"


@pytest.mark.needs("the environment of the Terraform provider", "the environment of the command line")
@pytest.mark.parametrize("python", [cli.PYTHON, terraform.PYTHON], ids=["te", "terraform"])
def test_the_bill_of_a_wheel_has_what_it_requires(tmp_path: Path, python: Path) -> None:
    wheel = tmp_path / "named" / "some-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    required = ["cryptography>=45", "urllib3", 'nothing; extra == "more"', 'nothing; python_version < "3"']
    lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in required)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some-1.0.dist-info/METADATA", f"Metadata-Version: 2.4\nName: some\nVersion: 1.0\n{lines}")
    wheels.write_bill(wheel, python)
    bill = json.loads((wheel.parent / "named-sbom.json").read_text())
    names = {component["name"] for component in bill["components"]}
    assert names >= {"cryptography", "urllib3", "cffi"}
    assert "nothing" not in names
    assert "pytest" not in names
