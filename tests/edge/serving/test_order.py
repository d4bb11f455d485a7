"""The order in which the resources of a name are sent to Envoy and removed, and what a rejection leaves."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from dataclasses import replace

from edge.envoy.ads.catalog import Answer, Name
from edge.envoy.ads.discovery import Discovery
from edge.envoy.names import scopes
from edge.envoy.resources import Changes, Key, Resource
from edge.serving.order import NameResources, Rejection, Sender

NAME, OTHER = "a.example.com", "b.example.com"


class Envoy(Discovery):
    """An Envoy that answers when it is waited for. It rejects the encodings in `rejected`."""

    def __init__(self) -> None:
        super().__init__(b"key")
        self.catalog.begin_stream("envoy")
        self.done: list[str] = []  # what was sent, removed and waited for
        self.rejected: set[bytes] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def apply(self, changes: Changes) -> list[Name]:
        self.done += [f"{'+' if change else '-'}{key.kind} {key.name}" for key, change in changes.items()]
        return super().apply(changes)

    async def wait_until_settled(self, names: Collection[Name], *, timeout: float) -> None:
        await self.may_answer.wait()
        self.done.append("wait")
        for name in names:
            if version := self.catalog.version(name):
                error = "bad" if self.catalog.value(name) in self.rejected else ""
                self.catalog.add_answer("envoy", name, Answer(version, error))


def resource(kind: str, name: str, text: str = "x", *, is_emptied: bool = False) -> Resource:
    return Resource(Key(kind, name), text.encode(), is_emptied)  # type: ignore[arg-type]


def resources(*clusters: Resource, name: str = NAME, scope: str = "", text: str = "x") -> NameResources:
    secret = resource("secret", name, text)
    return NameResources(name, clusters, resource("scope", scope or name, text), secret)


def run(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


SHARED, UNSHARED = resource("cluster", "shared"), resource("cluster", "own")


@run
async def test_clusters_scope_and_secret_are_sent_one_after_the_other() -> None:
    envoy = Envoy()
    assert await Sender(envoy).send(resources(SHARED)) is None
    assert envoy.done == ["+cluster shared", "wait", f"+scope {NAME}", "wait", f"+secret {NAME}", "wait"]


@run
async def test_a_cluster_that_loses_its_last_endpoint_is_sent_after_the_scope() -> None:
    envoy = Envoy()
    await Sender(envoy).send(resources(SHARED, replace(UNSHARED, is_emptied=True)))
    assert [step for step in envoy.done if step != "wait"][:3] == ["+cluster shared", f"+scope {NAME}", "+cluster own"]


@run
async def test_a_withdrawn_name_leaves_at_once_and_its_clusters_when_envoy_has_answered() -> None:
    envoy = Envoy()
    sender = Sender(envoy)
    await sender.send(resources(SHARED, UNSHARED))
    await sender.send(resources(SHARED, name=OTHER))
    envoy.done.clear()
    await sender.withdraw([NAME])
    assert envoy.done == [f"-secret {NAME}", f"-scope {NAME}", "wait", "-cluster own"]
    assert sender.scopes == {OTHER: Key("scope", OTHER)}
    await sender.withdraw([OTHER])
    assert [*envoy.catalog.names("cluster")] == []


@run
async def test_a_cluster_that_a_changed_name_does_not_use_is_removed_last() -> None:
    envoy = Envoy()
    sender = Sender(envoy)
    await sender.send(resources(UNSHARED))
    envoy.done.clear()
    await sender.send(resources(SHARED, text="new"))
    assert (envoy.done[0], envoy.done[-1]) == ("+cluster shared", "-cluster own")


@run
async def test_a_withdrawal_ends_a_send_that_waits() -> None:
    envoy = Envoy()
    sender = Sender(envoy)
    envoy.may_answer.clear()
    sending = asyncio.create_task(sender.send(resources(SHARED)))
    await asyncio.sleep(0)
    withdrawing = asyncio.create_task(sender.withdraw([NAME]))
    await asyncio.sleep(0)
    envoy.may_answer.set()
    assert await sending is None
    await withdrawing
    assert f"+scope {NAME}" not in envoy.done
    assert [*envoy.catalog.names("cluster")] == []


@run
async def test_a_rejected_first_secret_stays_so_that_handshakes_wait_for_another_one() -> None:
    envoy = Envoy()
    envoy.rejected = {b"bad"}
    name_resources = replace(resources(SHARED), secret=resource("secret", NAME, "bad"))
    assert await Sender(envoy).send(name_resources) == Rejection("secret", "bad")
    assert envoy.catalog.find_value(Name("secret", NAME)) == b"bad"


@run
async def test_a_rejected_change_leaves_what_envoy_has_accepted() -> None:
    envoy = Envoy()
    sender = Sender(envoy)
    await sender.send(resources(SHARED))
    envoy.rejected = {b"bad"}
    assert await sender.send(replace(resources(SHARED), secret=resource("secret", NAME, "bad")))
    assert await sender.send(resources(SHARED, text="bad")) == Rejection("scope", "bad")
    assert {name: envoy.catalog.value(name) for name in (Name("scope", NAME), Name("secret", NAME))} == {
        Name("scope", NAME): b"x",
        Name("secret", NAME): b"x",
    }


@run
async def test_a_replaced_scope_answers_421_for_a_minute() -> None:
    envoy, now = Envoy(), 0.0
    sender = Sender(envoy, now=lambda: now)
    await sender.send(resources())
    await sender.send(resources(scope=f"1.3/{NAME}"))
    closed = Name("scope", NAME)
    assert envoy.catalog.value(closed) == scopes.build_closed_scope(NAME).encoded
    for now, is_there in ((59.9, True), (60.0, False)):
        await sender.send(resources(name=OTHER, text=str(now)))
        assert (envoy.catalog.find_value(closed) is not None) is is_there
