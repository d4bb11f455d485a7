"""OAUTH_ENDPOINTS: other endpoints of providers."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge.process.settings import SettingError
from edge.sign_in.provider import endpoints
from edge.sign_in.provider.provider_table import PROVIDERS


def read(tmp_path: Path, content: Any) -> Any:
    file = tmp_path / "endpoints.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return endpoints.read(str(file))


def test_without_a_file_there_are_the_eight_providers() -> None:
    assert endpoints.read("") == PROVIDERS


def test_endpoints_are_replaced(tmp_path: Path) -> None:
    providers = read(
        tmp_path, {"github": {"api": "https://git.example/api"}, "gitlab": {"issuer": "http://127.0.0.1:1"}}
    )
    assert (providers["github"].facts, providers["gitlab"].issuer) == ("https://git.example/api", "http://127.0.0.1:1")
    assert providers["github"].token == PROVIDERS["github"].token
    assert providers["google"] == PROVIDERS["google"]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        [],
        {"unknown": {}},
        {"github": []},
        {"github": {"userinfo": "https://git.example"}},
        {"google": {"token": "http://10.0.0.1/token"}},
        {"google": {"token": "http://localhost.evil.example/token"}},
        {"google": {"token": "https://"}},
        {"google": {"token": "file:///etc/passwd"}},
        {"google": {"token": 1}},
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(SettingError, match="OAUTH_ENDPOINTS"):
        read(tmp_path, content)
