"""IP policies that a client names in TUNNEL_IP_POLICIES: when a tunnel knows them, and what is refused."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chalicelib import ids
from edge.ssh import named_policies
from edge.ssh.forwarding import LabelledTunnel, NamedTunnel, TunnelRefused
from edge.ssh.named_policies import NamedPolicies

FIRST_POLICY, SECOND_POLICY = (
    "ipp_2TfXCSmBHSvnQdwvT1fBtQ1mFEY",
    "ipp_2TfXCSmBHSvnQdwvT1fBtQ1mFEZ",
)  # the same in each process of the tests
DEMO = NamedTunnel("demo.tunnels.localhost")


class Client:
    """A client whose answers a test sends, one after the other."""

    def __init__(self) -> None:
        self.calls: list[asyncio.Future[None]] = []
        self.policies = NamedPolicies(self._confirm)

    async def _confirm(self) -> None:
        self.calls.append(asyncio.get_running_loop().create_future())
        await self.calls[-1]

    async def answer(self) -> None:
        await asyncio.sleep(0)
        self.calls.pop(0).set_result(None)

    def request(self) -> "asyncio.Task[tuple[str, ...]]":
        return asyncio.create_task(self.policies.read(DEMO))


def run(work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work(Client()), 20)

    asyncio.run(main())


async def is_waiting(task: "asyncio.Task[tuple[str, ...]]") -> bool:
    finished_tasks, _ = await asyncio.wait([task], timeout=0.05)
    return not finished_tasks


def test_a_client_without_a_session_waits_for_one_answer() -> None:
    async def work(client: Client) -> None:
        client.policies.begin()
        tunnel = client.request()
        assert await is_waiting(tunnel)
        await client.answer()
        assert await tunnel == ()
        assert await client.policies.read(DEMO) == ()

    run(work)


def test_a_tunnel_waits_for_the_variables_of_a_session() -> None:
    async def work(client: Client) -> None:
        is_open = asyncio.Event()
        client.policies.begin()
        tunnel = client.request()
        client.policies.await_session(is_open)
        await client.answer()
        assert await is_waiting(tunnel)
        is_open.set()
        assert await is_waiting(tunnel)
        client.policies.set(f"{FIRST_POLICY}, {SECOND_POLICY}")
        await client.answer()
        assert await tunnel == (FIRST_POLICY, SECOND_POLICY)
        client.policies.set(f"{FIRST_POLICY}, {SECOND_POLICY}")  # a second session with the same value
        assert (client.policies.refusal, await client.policies.read(DEMO)) == ("", (FIRST_POLICY, SECOND_POLICY))

    run(work)


@pytest.mark.parametrize("first", [None, FIRST_POLICY])
def test_a_value_that_comes_too_late_refuses_all_tunnels(first: str | None) -> None:
    async def work(client: Client) -> None:
        if first:
            client.policies.set(first)
        await client.policies.read(DEMO)
        client.policies.set(SECOND_POLICY)
        assert "came after the request for the tunnel" in client.policies.refusal
        with pytest.raises(TunnelRefused, match="came after the request for the tunnel"):
            await client.policies.read(DEMO)

    run(work)


def test_two_values_refuse_all_tunnels() -> None:
    async def work(client: Client) -> None:
        client.policies.set(FIRST_POLICY)
        client.policies.set(SECOND_POLICY)
        client.policies.set(FIRST_POLICY)
        with pytest.raises(TunnelRefused, match="has two values"):
            await client.policies.read(DEMO)

    run(work)


def test_a_client_that_does_not_answer_gets_no_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_policies, "_TIMEOUT", 0.01)

    async def work(client: Client) -> None:
        client.policies.begin()
        with pytest.raises(TunnelRefused, match="does not answer") as error:
            await client.policies.read(DEMO)
        assert not error.value.is_final
        client.policies.end()

    run(work)


def test_a_tunnel_with_labels_is_not_restricted_by_the_variable() -> None:
    async def work(client: Client) -> None:
        labels = LabelledTunnel((("app", "shop"),))
        assert await client.policies.read(labels) == ()
        client = Client()
        client.policies.set(FIRST_POLICY)
        with pytest.raises(TunnelRefused, match="set ip_restriction on the edge"):
            await client.policies.read(labels)

    run(work)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        f"{FIRST_POLICY},",
        "office",
        f"{FIRST_POLICY} {SECOND_POLICY}",
        f"{FIRST_POLICY};{SECOND_POLICY}",
        FIRST_POLICY.replace("ipp", "rd"),
        "*",
    ],
)
def test_a_text_that_is_no_list_of_policies_is_refused(text: str) -> None:
    with pytest.raises(TunnelRefused, match="must be ids of IP policies"):
        named_policies.parse_policies(text)


def test_a_tunnel_has_at_most_ten_policies() -> None:
    policy_ids = [ids.new("ipp") for _ in range(11)]
    assert named_policies.parse_policies(",".join([*policy_ids[:10], policy_ids[0]])) == tuple(policy_ids[:10])
    with pytest.raises(TunnelRefused, match="has more than 10 IP policies"):
        named_policies.parse_policies(",".join(policy_ids))
