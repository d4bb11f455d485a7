"""The log of changes, followed by a reader whose clock and store are not those of the writers."""

import random
from dataclasses import dataclass, field

import pytest

from chalicelib.storage.records.change_log import OVERLAP, Change, ItemKey
from edge.store.changes import Follower

POLL = 0.4  # seconds between reads


@dataclass
class Log:
    """A log whose changes a test stamps. `since` has the moments from which it was read."""

    changes: list[Change] = field(default_factory=list)
    since: list[float] = field(default_factory=list)

    def write(self, at: float, id: str = "x") -> None:
        self.changes.append(Change(f"{int(at * 1000):013}-{id}", (ItemKey("acct_a#/tunnels", id),)))

    def list_changes(self, since: float) -> list[Change]:
        self.since.append(since)
        return [change for change in self.changes if change.at > since]


def ids(changes: list[Change]) -> list[str]:
    return [item_key.id for change in changes for item_key in change.item_keys]


def test_each_change_is_returned_once() -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000)
    log.write(999, "before")
    log.write(1001, "a")
    assert ids(follower.read(1001)) == ["before", "a"]
    log.write(1002, "b")
    assert ids(follower.read(1002)) == ["b"]
    assert [ids(follower.read(1002 + number)) for number in range(1, 200)] == [[]] * 199


@pytest.mark.parametrize(("late", "within"), [(0.0, 0.4), (1.5, 0.4), (5.0, 15), (31.0, 15), (54.0, 15)])
def test_a_change_that_is_stamped_early_and_written_late_is_returned(late: float, within: float) -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000)
    for number in range(50):
        log.write(1000 + POLL * number, f"c{number}")
        follower.read(1000 + POLL * number)
    log.write(1020 - late, "late")
    reads = [1020 + POLL * number for number in range(40)]
    (found,) = (now for now in reads if "late" in ids(follower.read(now)))
    assert found <= 1020 + within


@pytest.mark.parametrize("ahead", [-50.0, -5.0, 0.0, 5.0, 50.0])
def test_a_reader_with_a_wrong_clock_returns_a_change_at_its_next_read(ahead: float) -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000 + ahead)
    follower.read(1000 + ahead)
    for number in range(200):
        log.write(1000 + POLL * number, f"c{number}")
        assert ids(follower.read(1000 + POLL * number + ahead)) == [f"c{number}"]


def test_one_writer_with_a_fast_clock_delays_no_other() -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000)
    follower.read(1000)
    log.write(1040, "fast")
    assert ids(follower.read(1001)) == ["fast"]
    log.write(1001.5, "right")
    assert ids(follower.read(1002)) == ["right"]


def test_reads_go_back_two_seconds_and_a_minute_every_fifteen_seconds() -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000)
    for number in range(0, 40, 4):
        log.write(1000 + number, f"c{number}")
        follower.read(1000 + number)
    assert OVERLAP == 60
    assert log.since == [940, 998, 1002, 1006, 940, 1014, 1018, 1022, 956, 1030]


def test_a_reader_whose_clock_is_set_back_reads_on() -> None:
    log = Log()
    follower = Follower(log.list_changes, 5000)
    follower.read(5000)
    follower.read(1000)
    log.write(1001, "a")
    assert ids(follower.read(1001.4)) == ["a"]
    log.write(1000 - 30, "late")
    assert [it for number in range(40) for it in ids(follower.read(1001.8 + POLL * number))] == ["late"]


def test_a_reader_that_was_away_reads_all_that_it_has_missed() -> None:
    log = Log()
    follower = Follower(log.list_changes, 1000)
    follower.read(1001)
    log.write(1100, "a")
    log.write(3000, "b")
    assert ids(follower.read(3600)) == ["a", "b"]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_missed_where_clocks_are_five_seconds_apart_and_writers_slow(seed: int) -> None:
    chance = random.Random(seed)
    log, now, written = Log(), 1000.0, []
    followers = [Follower(log.list_changes, now + skew) for skew in (-2.5, 2.5)]
    heard: list[list[str]] = [[], []]
    pending: list[tuple[float, float, str]] = []
    for number in range(400):
        stamped = now + chance.uniform(-2.5, 2.5)
        pending.append((now + chance.choice([0, 0, 0.1, 13]), stamped, f"c{number}"))
        now += chance.uniform(0, 0.2)
        for due in [it for it in pending if it[0] <= now]:
            pending.remove(due)
            log.write(*due[1:])
            written.append(due[2])
        for item_key, skew in enumerate((-2.5, 2.5)):
            if chance.random() < 0.5:
                heard[item_key] += ids(followers[item_key].read(now + skew))
    for item_key, follower in enumerate(followers):
        for number in range(20):
            heard[item_key] += ids(follower.read(now + number))
    assert sorted(heard[0]) == sorted(heard[1]) == sorted(written)
