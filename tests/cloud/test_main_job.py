"""The README's main job on the deployed package."""

from pathlib import Path

import pytest

from tests.cloud.pages import assert_logged_in, blocks, paste, project
from tests.conftest import Served


@pytest.mark.needs("bash", "curl", "jq", "ssh", "sshd")
def test_the_main_job_works_on_the_deployed_package(deployed_api: Served, tmp_path: Path) -> None:
    job = [block for block in blocks("README.md", "The main job: from a key to a login") if not block.startswith("te ")]
    assert_logged_in(paste(job, project(tmp_path, deployed_api)))
