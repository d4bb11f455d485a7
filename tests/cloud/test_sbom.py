"""The bill of materials beside the package, against what the package has."""

import json
import re
import zipfile

from tests.conftest import ROOT, Served

PACKAGE = ROOT / "build" / "dev"


def test_the_bill_has_every_library_of_the_package_and_no_other(deployed: Served) -> None:
    bill = json.loads((PACKAGE / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    with zipfile.ZipFile(PACKAGE / "deployment.zip") as package:
        shipped = {name.partition(".dist-info/")[0] for name in package.namelist() if ".dist-info/" in name}
    named = {f"{it['name'].lower().replace('-', '_')}-{it['version']}" for it in bill["components"]}
    assert {it for it in named if not it.startswith("chalice-")} == {it.lower() for it in shipped}
    assert any(it.startswith("chalice-") for it in named)
    references = [it["bom-ref"] for it in bill["components"]]
    assert len({*references}) == len(references)
    assert all(re.fullmatch(r"pkg:pypi/[a-z0-9.-]+@[0-9][0-9a-z.]*", it) for it in references)
    assert bill["dependencies"] == [{"ref": "tunnel-edge", "dependsOn": references}]
