"""Names count once, as held or in cooldown, under races and faults: GET /me says the same as a scan of the table."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import pytest
from botocore.awsrequest import AWSResponse
from chalice.app import Chalice

from chalicelib import routes
from chalicelib.http import middleware, registration
from chalicelib.model.tunnels import tunnels
from chalicelib.operator import accounts
from chalicelib.storage.client import aws
from tests.names import TEAM, D, assert_taken
from tests.names_held import count_more, count_names, end_cooldowns, read_counts
from tests.refusals import assert_refused
from tests.storage.conflicting import simulate_conflicts
from tests.transports import Client, InProcess
from tests.tunnels import open_agent_tunnel

pytestmark = pytest.mark.usefixtures("tunnel_domain")

CYCLES = int(os.environ.get("NAME_CYCLES") or 15)
FULL = "The account has 1000 names, the maximum: delete some first."


def reserve(client: Client, domain: str) -> str:
    return f"/reserved_domains/{client.create('/reserved_domains', {'domain': domain})['id']}"


def compare_counts(client: Client) -> tuple[int, int]:
    """Return the names that are held and in cooldown, which GET /me shows and a scan finds."""
    counts = read_counts(client)
    assert counts == count_names(client)
    return counts["held"], counts["cooldown"]


def test_a_name_counts_once_whatever_has_it(admin: Client) -> None:
    assert compare_counts(admin) == (0, 0)
    paths = [reserve(admin, TEAM), reserve(admin, f"x.{TEAM}")]
    edge = admin.create("/edges/https", {"hostports": [f"y.{TEAM}:443", f"z.{TEAM}:443", "app.example.com:443"]})
    assert compare_counts(admin) == (1, 0)
    other = admin.create("/edges/tcp", {"hostports": [f"{TEAM}:20001"]})
    assert compare_counts(admin) == (2, 0)  # and the port
    paths.append(reserve(admin, "app.example.com"))
    assert compare_counts(admin) == (3, 0)
    for path in (*paths, f"/edges/https/{edge['id']}"):
        admin.delete(path)
    assert compare_counts(admin) == (2, 0)
    admin.patch(f"/edges/tcp/{other['id']}", {"hostports": [f"{D}:20002"]})
    assert compare_counts(admin) == (1, 2)
    admin.delete(f"/edges/tcp/{other['id']}")
    assert compare_counts(admin) == (0, 3)
    admin.create("/reserved_addrs", {})
    end_cooldowns(admin)
    assert compare_counts(admin) == (1, 0)


def test_a_name_that_an_edge_alone_held_stays_its_accounts_for_a_day(admin: Client, stranger: Client) -> None:
    hostports = {"hostports": [f"{TEAM}:443"]}
    edge = admin.create("/edges/https", hostports)
    admin.delete(f"/edges/https/{edge['id']}")
    assert_taken(stranger.post("/edges/https", hostports))
    assert_taken(stranger.post("/reserved_domains", {"domain": TEAM}), "domain")
    tunnels.close_tunnel(
        admin.account, open_agent_tunnel(admin.account, name=TEAM)
    )  # which leaves the cooldown as it is
    assert_taken(stranger.post("/edges/https", hostports))
    assert compare_counts(admin) == (0, 1)
    again = admin.create("/edges/https", hostports)
    assert compare_counts(admin) == (1, 0)
    admin.delete(f"/edges/https/{again['id']}")
    end_cooldowns(admin)
    assert compare_counts(admin) == (0, 0)
    stranger.create("/edges/https", hostports)
    assert (compare_counts(admin), compare_counts(stranger)) == ((0, 0), (1, 0))


def test_names_that_one_change_releases_are_taken_back_one_by_one(admin: Client) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"n{number}.{D}:443" for number in range(5)]})
    admin.delete(f"/edges/https/{edge['id']}")
    for number in range(5):
        assert compare_counts(admin) == (number, 5 - number)
        admin.create("/edges/tls", {"hostports": [f"n{number}.{D}:443"]})
    assert compare_counts(admin) == (5, 0)


def test_one_change_takes_some_names_back_and_releases_others(admin: Client) -> None:
    first = admin.create("/edges/https", {"hostports": [f"a.{D}:443", f"b.{D}:443"]})
    second = admin.create("/edges/https", {"hostports": [f"c.{D}:443"]})
    admin.delete(f"/edges/https/{first['id']}")
    admin.patch(f"/edges/https/{second['id']}", {"hostports": [f"a.{D}:443", f"b.{D}:443"]})
    assert compare_counts(admin) == (2, 1)


def test_the_largest_edge_is_made_changed_and_removed(admin: Client) -> None:
    def hostports(*numbers: int) -> dict[str, list[str]]:
        return {"hostports": [f"n{number}.{D}:{20000 + number}" for number in numbers]}

    edge = admin.create("/edges/tcp", hostports(*range(20)))
    admin.patch(f"/edges/tcp/{edge['id']}", hostports(*range(8, 28)))
    assert compare_counts(admin) == (40, 16)
    admin.delete(f"/edges/tcp/{edge['id']}")
    assert compare_counts(admin) == (0, 56)
    admin.create("/edges/tcp", hostports(*range(4, 24)))
    assert compare_counts(admin) == (40, 16)


def test_deleted_names_do_not_lock_an_account_out(admin: Client) -> None:
    count_more(admin, names=999)
    for number in range(3):
        admin.delete(reserve(admin, f"n{number}.{D}"))
    again = reserve(admin, f"n1.{D}")
    assert_refused(admin.post("/reserved_domains", {"domain": f"n2.{D}"}), 409, "conflict", FULL, {})
    assert_refused(admin.post("/reserved_domains", {"domain": "app.example.com"}), 409, "conflict", FULL, {})
    assert (read_counts(admin), count_names(admin)["cooldown"]) == ({"held": 1000, "cooldown": 2, "allowed": 1000}, 2)
    admin.delete(again)
    reserve(admin, f"n2.{D}")


def test_beyond_the_bound_the_oldest_cooldown_ends_early(admin: Client, stranger: Client) -> None:
    first = admin.create("/edges/https", {"hostports": [f"a.{D}:443"]})
    admin.delete(f"/edges/https/{first['id']}")
    second = admin.create("/edges/https", {"hostports": [f"{label}.{D}:443" for label in "bcd"]})
    count_more(admin, cooldown=9_997)
    for label in ("b", "c"):
        admin.create("/edges/tls", {"hostports": [f"x.{label}.{D}:443"]})
    edge = admin.create("/edges/https", {"hostports": [f"e.{D}:443", f"f.{D}:443"]})
    admin.delete(f"/edges/https/{second['id']}")  # 9,999 with d
    assert read_counts(admin)["cooldown"] == 9_999
    assert_taken(stranger.post("/edges/https", {"hostports": [f"a.{D}:443"]}))
    open_agent_tunnel(admin.account, name=f"d.{D}")
    assert admin.delete(f"/edges/https/{edge['id']}").status == 204
    assert (read_counts(admin)["cooldown"], count_names(admin)["cooldown"]) == (10_000, 3)
    stranger.create("/edges/https", {"hostports": [f"a.{D}:443"]})
    for label in "bcdef":
        assert_taken(stranger.post("/edges/https", {"hostports": [f"{label}.{D}:443"]}))


def test_cooldowns_that_have_ended_do_not_count_against_the_bound(admin: Client) -> None:
    count_more(admin, cooldown=9_999)
    admin.delete(reserve(admin, f"a.{D}"))
    end_cooldowns(admin)
    assert read_counts(admin)["cooldown"] == 9_999
    admin.delete(reserve(admin, f"b.{D}"))
    assert (read_counts(admin)["cooldown"], count_names(admin)["cooldown"]) == (10_000, 1)


@pytest.mark.parametrize("name", [lambda number: TEAM, lambda number: f"n{number}.{D}"])
def test_many_cycles_of_reserving_and_deleting(admin: Client, name: Callable[[int], str]) -> None:
    for number in range(CYCLES):
        admin.delete(reserve(admin, name(number)))
    assert compare_counts(admin) == (0, len({*map(name, range(CYCLES))}))
    reserve(admin, name(0))


def apart(client: Client) -> Client:
    """Return the client with an app of its own: Chalice keeps the request there, one at a time."""
    app = Chalice("tunnel-edge", configure_logs=False)
    middleware.wrap(app)
    registration.serve(app, routes.ALL)
    return replace(client, transport=InProcess(app))


def newcomers(admin: Client, number: int) -> list[Client]:
    new_accounts = [accounts.create_account(f"racer {index}", "admin") for index in range(number)]
    return [apart(replace(admin, account=account.id).with_token(token)) for account, _, token in new_accounts]


def test_accounts_that_race_for_names_in_cooldown_get_none_and_then_each_name_once(admin: Client) -> None:
    own_client, racers, raced = apart(admin), newcomers(admin, 8), [f"n{number}.{D}" for number in range(4)]
    for name in raced:
        admin.delete(reserve(admin, name))

    def race(clients: list[Client]) -> list[tuple[str, str, int]]:
        def attempt(client: Client) -> list[tuple[str, str, int]]:
            answers = ((name, client.post("/reserved_domains", {"domain": name})) for name in raced)
            return [(client.account, name, answer.status) for name, answer in answers]

        with simulate_conflicts(), ThreadPoolExecutor(len(clients)) as pool:
            return [outcome for outcomes in pool.map(attempt, clients) for outcome in outcomes]

    assert {status for _, _, status in race(racers)} == {409}
    assert compare_counts(admin) == (0, 4)
    outcomes = race([*racers, own_client])
    assert {(account, name) for account, name, status in outcomes if status == 201} == {
        (admin.account, name) for name in raced
    }
    assert compare_counts(admin) == (4, 0)
    for reservation in list(admin.all("/reserved_domains", "reserved_domains")):
        admin.delete(f"/reserved_domains/{reservation['id']}")
    end_cooldowns(admin)
    outcomes = race([*racers, own_client])
    assert Counter(name for _, name, status in outcomes if status == 201) == dict.fromkeys(raced, 1)
    assert {status for *_, status in outcomes} == {201, 409}
    assert sum(compare_counts(client)[0] for client in (*racers, admin)) == 4


def test_clients_of_one_account_that_share_names_count_them_once(admin: Client) -> None:
    def cycle(index: int) -> list[int]:
        client = apart(admin)
        hostports = [f"x{index}.n{name}.{D}:443" for name in range(3)]
        creation = client.post("/edges/https", {"hostports": hostports})
        edge_path = f"/edges/https/{creation.json['id']}"
        patched = client.patch(edge_path, {"hostports": [*hostports[1:], f"x{index}.n4.{D}:443"]})
        return [creation.status, patched.status, client.delete(edge_path).status if index % 2 else 204]

    with simulate_conflicts(), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(cycle, range(8))) == [[201, 200, 204]] * 8
    assert compare_counts(admin) == (3, 1)


@contextmanager
def fail_transaction(index: int, when: Literal["before", "after"]) -> Iterator[list[int]]:
    """Fail one transaction of this block, before it is done or after; yield the places of all."""
    numbers, write_numbers = count(), list[int]()
    error_body: Mapping[str, Any] = {
        "Error": {"Code": "TransactionCanceledException", "Message": ""},
        "CancellationReasons": [{"Code": "ItemCollectionSizeLimitExceeded"}],
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }

    def begin(**_: object) -> Any:
        write_numbers.append(next(numbers))
        return (
            (AWSResponse("", 400, {}, None), {**error_body})
            if when == "before" and write_numbers[-1] == index
            else None
        )

    def end(http_response: Any, parsed: dict[str, Any], **_: object) -> None:
        if when == "after" and write_numbers[-1] == index:
            http_response.status_code = 400
            parsed.update(error_body)

    events = aws.client("dynamodb").meta.events
    events.register("before-call.dynamodb.TransactWriteItems", begin)
    events.register_last("after-call.dynamodb.TransactWriteItems", end)
    try:
        yield write_numbers
    finally:
        events.unregister("before-call.dynamodb.TransactWriteItems", begin)
        events.unregister("after-call.dynamodb.TransactWriteItems", end)


@pytest.mark.parametrize("when", ["before", "after"])
def test_counts_are_right_after_a_fault_in_every_write(admin: Client, when: Literal["before", "after"]) -> None:
    for index in count():
        with fail_transaction(index, when) as write_numbers:
            statuses = _act(admin)
        compare_counts(admin)
        if len(write_numbers) <= index:
            break
        assert 503 in statuses
    assert index > 8


def _act(client: Client) -> list[int]:
    """Create, change and delete what has names; return the statuses."""
    statuses = []

    def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = client.send(method, path, body)
        statuses.append(answer.status)
        answer_body: dict[str, Any] = answer.json if answer.status < 300 and answer.text else {}
        return answer_body

    edge = ask("POST", "/edges/https", {"hostports": [f"a.{D}:443", f"b.{D}:443"]}).get("id", "none")
    domain = ask("POST", "/reserved_domains", {"domain": f"a.{D}"}).get("id", "none")
    ask("PATCH", f"/edges/https/{edge}", {"hostports": [f"b.{D}:443", f"c.{D}:443"]})
    ask("POST", f"/edges/https/{edge}/routes", {"match_type": "exact_path", "match": "/"})
    port = ask("POST", "/reserved_addrs", {}).get("id", "none")
    for path in (f"/reserved_domains/{domain}", f"/reserved_addrs/{port}", f"/edges/https/{edge}"):
        ask("DELETE", path)
    for kind, array in (("edges/https", "https_edges"), ("reserved_domains", "reserved_domains")):
        for resource in list(client.all(f"/{kind}", array)):
            ask("DELETE", f"/{kind}/{resource['id']}")
    return statuses
