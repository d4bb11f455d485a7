"""The emulated cloud of `make cloud`: its API is open to who has a key of it, and nothing else is."""

import hashlib

import httpx
import pytest

from tests.conftest import Served, client_of
from tests.served.guarded import REFUSED, SCAN, parse_answer, send_request, sign_headers


def test_nobody_reads_it_without_its_key_id(deployed_api: Served) -> None:
    for headers in (SCAN, {**SCAN, **sign_headers("test")}):
        assert parse_answer(send_request(deployed_api, headers)) == (403, REFUSED)


def test_the_credentials_of_its_functions_can_be_calculated_and_open_nothing(deployed_api: Served) -> None:
    assert deployed_api.client().get("/api_keys").status == 200  # from now on the API's function has them
    for function in client_of(deployed_api.cloud, "lambda").list_functions()["Functions"]:
        digest = hashlib.sha256(f"{function['FunctionArn']}:{function['Role']}".encode()).hexdigest()
        assert parse_answer(send_request(deployed_api, {**SCAN, **sign_headers(f"ASIA{digest[:16].upper()}")})) == (
            403,
            REFUSED,
        )


@pytest.mark.parametrize("host", ["packages.s3.amazonaws.com", "x.cloudfront.net", "example.com"])
def test_a_path_of_the_api_leads_nowhere_else(deployed_api: Served, host: str) -> None:
    answer = httpx.get(f"{deployed_api.base_url}/api_keys", headers={"Host": host}, trust_env=False)
    assert parse_answer(answer) == (403, REFUSED)


def test_a_page_of_another_origin_cannot_read_the_api(deployed_api: Served) -> None:
    headers = {"Origin": "https://example.com", "Authorization": f"Bearer {deployed_api.token}", "Service-Version": "2"}
    answer = httpx.get(f"{deployed_api.base_url}/api_keys", headers=headers, trust_env=False)
    assert parse_answer(answer)[0] == 200  # a page is not shown it, without the headers that would allow it
