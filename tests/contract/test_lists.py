"""Lists and addresses: every uri is absolute and works where it came from. Others may be in the account."""

from typing import Any

from tests.transports import Client

PATH = "/backends/weighted"


def follow(client: Client, uri: str) -> Any:
    """Return the answer at an address that the service gave."""
    base_url = client.transport.base_url
    assert uri.startswith(f"{base_url}/")
    answer = client.get(uri.removeprefix(base_url))
    assert answer.status == 200, answer.text
    return answer.json


def test_a_page_leads_to_its_entries_to_its_list_and_to_the_next_page(client: Client) -> None:
    third, second, first = (client.create(PATH, {"description": str(number)}) for number in range(3))
    base_url = client.transport.base_url
    page = client.get(f"{PATH}?limit=2").json
    assert page == {
        "backends": [first, second],
        "uri": f"{base_url}{PATH}",
        "next_page_uri": f"{base_url}{PATH}?before_id={second['id']}&limit=2",
    }
    assert follow(client, first["uri"]) == first
    assert follow(client, page["uri"])["backends"][:3] == [first, second, third]
    following = follow(client, page["next_page_uri"])
    assert (following["backends"][0], following["uri"]) == (third, page["uri"])


def test_the_last_page_leads_nowhere(client: Client) -> None:
    page = client.get(f"{PATH}?before_id=bkdwd_{'0' * 27}").json
    assert page == {"backends": [], "uri": f"{client.transport.base_url}{PATH}", "next_page_uri": None}


def test_a_ref_leads_to_what_it_names(client: Client) -> None:
    backend, edge = client.create(PATH, {}), client.create("/edges/tls", {})
    module = client.put(f"/edges/tls/{edge['id']}/backend", {"backend_id": backend["id"]}).json
    assert module == {"enabled": True, "backend": {"id": backend["id"], "uri": backend["uri"]}}
    assert follow(client, module["backend"]["uri"]) == backend
