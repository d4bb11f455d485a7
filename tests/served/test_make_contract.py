"""`make contract`: it holds for a deployment with other parameters than the default, and says in a sentence why not."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Served, free_port, serve
from tests.contract import deployments
from tests.contract.deployments import Deployment
from tests.served.commands import run

SETTINGS = {
    "BASE_URL": "https://api.example.com",
    "STRICT_REFERENCES": "true",
    "VERSION_HEADERS": "Vendor-Version",
    "TUNNEL_DOMAIN": "",  # as a stack has it whose parameters nobody named
    "TCP_PORTS": "",
}


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Served]:
    """Yield an API with other settings, which says that it is where it is not yet."""
    process, api = serve(tmp_path / "local", **SETTINGS)
    yield api
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.needs("the environment of make")
def test_it_holds_for_a_deployment_with_other_parameters(other: Served) -> None:
    assert deployments.ask(other.base_url, other.token) == Deployment("https://api.example.com", "Vendor-Version")
    chosen = {
        "URL": other.base_url,
        "API_KEY": other.token,
        "SUITE": "tests/contract/test_lists.py tests/contract/test_every_kind.py",
    }
    status, out, err = run(chosen, "make", "contract")
    assert (status, err) == (0, ""), out
    assert re.search(r"^\d+ passed, 1 skipped in ", out, re.M), out


def test_where_it_is_called_uris_begin_with_the_url_whatever_the_deployment_says(served: Served) -> None:
    assert deployments.ask(served.base_url, served.token) == Deployment(served.base_url, "Service-Version")
    url = served.base_url.replace("127.0.0.1", "localhost")
    assert deployments.ask(url, served.token) == Deployment(url, "Service-Version")


def test_a_url_or_a_key_that_is_wrong_is_told_in_a_sentence(served: Served) -> None:
    right, nobody = served.base_url, f"http://127.0.0.1:{free_port()}"
    elsewhere, deleted = f"{right}/prod", f"{'0' * 27}_0"
    unknown = '401 {"error_code":"unauthenticated",'
    for url, key, sentence in (
        (nobody, served.token, f"{nobody}/openapi.json does not answer: [Errno 111] Connection refused."),
        (elsewhere, served.token, f"{elsewhere}/openapi.json answers 404 and is no document of this API."),
        (right, deleted, f"The API at {right} does not let the API key in: {unknown}"),
    ):
        with pytest.raises(pytest.exit.Exception) as error:
            deployments.ask(url, key)
        assert error.value.msg.startswith(sentence)
        assert error.value.returncode == 1
