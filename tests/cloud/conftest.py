"""What the tests of the deployment share: the template that was deployed."""

import json
from typing import Any

import pytest

from tests.conftest import ROOT, Served


@pytest.fixture(scope="session")
def template(deployed: Served) -> dict[str, Any]:
    """The API's stack as SAM makes it of what make package made."""
    read: dict[str, Any] = json.loads((ROOT / "build" / "dev" / "translated.json").read_text())
    return read
