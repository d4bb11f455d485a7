"""A folder for the sockets of a test."""

from pathlib import Path

import pytest

from edge.process.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(directory=tmp_path)
