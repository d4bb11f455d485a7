"""A relay as a rule: events in, commands out."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from edge.process.settings import Limits
from edge.ssh.data.interfaces import Timer
from edge.ssh.data.relay import Relay


@dataclass
class Watch:
    """A call that is to come."""

    seconds: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


@dataclass
class End:
    """An end that notes what it is told."""

    name: str
    done: list[str]
    unsent: int = 0
    is_gone: bool = False
    is_reset: bool = False

    def write(self, data: bytes) -> None:
        self.done.append(f"{self.name} {data.decode()}")

    def write_eof(self) -> None:
        if self.is_reset:
            raise OSError("Transport endpoint is not connected")
        self.done.append(f"{self.name} eof")

    def close(self) -> None:
        self.done.append(f"{self.name} close")

    def abort(self) -> None:
        self.done.append(f"{self.name} abort")

    def pause_reading(self) -> None:
        self.done.append(f"{self.name} pause")

    def resume_reading(self) -> None:
        self.done.append(f"{self.name} resume")

    def is_closing(self) -> bool:
        return self.is_gone

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int) -> None:
        self.done.append(f"{self.name} limit {high}")


@dataclass
class Trial:
    """A relay between two such ends."""

    done: list[str] = field(default_factory=list)
    timers: list[Watch] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    is_requesting: bool = False

    def __post_init__(self) -> None:
        self.envoy, self.channel = End("envoy", self.done), End("channel", self.done)
        self.relay = Relay(self, self, Limits(upstream_timeout=10, idle_timeout=300))

    def open(self, relay: Relay) -> None:
        self.done.append("open")

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Watch(seconds, call))
        return self.timers[-1]

    def on_relay_end(self, relay: Relay) -> None:
        self.done.append("closed")

    def on_close(self) -> None:
        self.events.append(b"the end")

    def on_request(self, data: bytes) -> None:
        self.events.append(data)

    def on_response(self, data: bytes) -> bool:
        self.events.append(data)
        return self.is_requesting

    def joined(self) -> "Trial":
        """Return it when the channel is open and nothing was sent yet."""
        self.relay.on_connected(self.envoy)
        self.relay.on_opened(self.channel)
        self.relay.on_opening_end()
        self.done.clear()
        return self


@pytest.fixture
def trial() -> Trial:
    return Trial()


def test_what_envoy_sends_before_the_channel_is_open_is_kept_and_reading_pauses(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.relay.data_received(b"a")
    trial.relay.data_received(b"b")
    trial.relay.on_opened(trial.channel)
    trial.relay.data_received(b"c")
    assert trial.done == ["open", "envoy pause", "channel ab", "envoy resume", "channel c"]
    assert trial.events == [b"a", b"b", b"c"]


def test_a_channel_that_takes_too_long_closes_the_connection_and_one_that_opens_in_time_does_not(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    (late,) = trial.timers
    assert (late.seconds, late.is_cancelled) == (10, False)
    late.call()
    assert trial.done == ["open", "envoy close"]
    trial.relay.on_opened(trial.channel)
    assert late.is_cancelled


def test_a_refused_channel_closes_the_connection(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.relay.on_refused()
    trial.relay.on_opening_end()
    trial.relay.connection_lost(None)
    assert trial.done == ["open", "envoy close", "closed"]


def test_a_channel_that_is_refused_when_envoy_has_gone_is_over(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.relay.connection_lost(None)
    trial.relay.on_refused()
    assert trial.done == ["open"]
    trial.relay.on_opening_end()
    assert (trial.done, trial.events) == (["open", "closed"], [b"the end"])


def test_a_channel_that_opens_when_envoy_has_gone_is_closed(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.relay.connection_lost(None)
    assert trial.timers[0].is_cancelled
    trial.relay.on_opened(trial.channel)
    trial.relay.on_opening_end()
    assert trial.done == ["open", "channel close"]
    trial.relay.on_channel_closed()
    assert trial.done == ["open", "channel close", "closed"]


def test_a_channel_that_was_closing_before_it_was_ours_closes_the_connection(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.channel.is_gone = True
    trial.relay.on_opened(trial.channel)
    assert trial.done == ["open", "envoy close"]


def test_answers_go_to_envoy_while_it_is_there(trial: Trial) -> None:
    trial.joined().relay.on_response(b"a")
    trial.relay.connection_lost(None)
    trial.relay.on_response(b"b")
    assert trial.done == ["envoy a", "channel resume", "channel close"]
    assert trial.events == [b"a", b"b"]


def test_the_slower_end_sets_the_pace(trial: Trial) -> None:
    trial.joined().relay.pause_writing()
    trial.relay.resume_writing()
    trial.relay.on_stalled("session")
    trial.relay.on_drained("session")
    assert trial.done == ["channel pause", "channel resume", "envoy pause", "envoy resume"]


def test_reading_goes_on_when_everybody_who_held_it_lets_it(trial: Trial) -> None:
    trial.joined().relay.pause("a")
    trial.relay.pause("b")
    trial.relay.pause("a")
    trial.relay.resume("a")
    assert trial.done == ["envoy pause"]
    trial.relay.resume("b")
    assert trial.done == ["envoy pause", "envoy resume"]


def test_a_relay_that_is_held_before_it_is_connected_does_not_read(trial: Trial) -> None:
    trial.relay.pause("client")
    trial.relay.on_connected(trial.envoy)
    trial.relay.on_opened(trial.channel)
    assert trial.done == ["open", "envoy pause"]


def test_both_ends_have_to_go_before_it_is_over(trial: Trial) -> None:
    trial.joined().relay.on_channel_closed()
    assert trial.done == ["envoy close"]
    trial.relay.connection_lost(None)
    assert trial.done == ["envoy close", "closed"]
    assert trial.events == [b"the end"]


@pytest.mark.parametrize(("last", "steps"), [(b"", ["envoy abort"]), (b"503", ["envoy 503", "envoy close"])])
def test_what_is_ended_at_once_says_its_last_words_to_envoy_alone(trial: Trial, last: bytes, steps: list[str]) -> None:
    trial.joined().relay.abort(last)
    assert trial.done == [*steps, "channel abort"]


def test_a_visitor_who_leaves_closes_the_channel_once_all_was_read(trial: Trial) -> None:
    trial.joined().channel.unsent = 5
    trial.relay.connection_lost(None)
    assert trial.done == ["channel resume", "channel limit 0"]
    trial.relay.on_stalled("session")
    trial.relay.on_drained("session")
    assert trial.done == ["channel resume", "channel limit 0", "channel close"]
    trial.relay.on_channel_closed()
    assert trial.done[-1] == "closed"


def test_a_channel_whose_visitor_has_gone_ends_soon_when_its_client_reads_nothing(trial: Trial) -> None:
    trial.joined().channel.unsent = 100
    trial.relay.on_stalled("session")
    trial.relay.connection_lost(None)
    *before, last = trial.timers
    assert (last.seconds, [timer.is_cancelled for timer in before]) == (10, [True, True])
    trial.channel.unsent = 50
    last.call()
    assert "channel abort" not in trial.done
    assert trial.timers[-1].seconds == 10
    trial.timers[-1].call()
    assert trial.done[-1] == "channel abort"


def test_a_visitor_who_has_gone_behind_unread_bytes_is_waited_for_no_longer_than_an_upstream(trial: Trial) -> None:
    trial.joined().channel.unsent = 100
    trial.relay.on_stalled("session")
    assert trial.timers[-1].seconds == 300
    trial.relay.on_visitor_left()
    trial.relay.on_visitor_left()
    *before, last = trial.timers
    assert (last.seconds, [timer.is_cancelled for timer in before]) == (10, [True, True])
    last.call()
    assert trial.done[-2:] == ["envoy abort", "channel abort"]


@pytest.mark.parametrize(
    ("unsent", "answers", "is_ended"), [(100, False, True), (100, True, False), (99, False, False), (101, False, True)]
)
def test_a_slow_reader_is_not_idle_while_anything_moves(
    trial: Trial, unsent: int, answers: bool, is_ended: bool
) -> None:
    trial.joined().channel.unsent = 100
    trial.relay.on_stalled("session")
    idle = trial.timers[-1]
    assert idle.seconds == 300
    trial.channel.unsent = unsent
    if answers:
        trial.relay.on_response(b"a")
    trial.done.clear()
    idle.call()
    assert trial.done == (["envoy abort", "channel abort"] if is_ended else [])
    assert (trial.timers[-1] is idle) is is_ended
    if not is_ended:  # the next look counts from here
        trial.timers[-1].call()
        assert trial.done == ["envoy abort", "channel abort"]


def test_a_reader_that_catches_up_or_goes_is_not_watched_any_more(trial: Trial) -> None:
    trial.joined().relay.on_stalled("session")
    trial.relay.on_drained("session")
    assert trial.timers[-1].is_cancelled
    trial.relay.on_stalled("session")
    trial.relay.on_channel_closed()
    assert [timer.is_cancelled for timer in trial.timers] == [True, True, True]


def test_each_way_ends_by_itself(trial: Trial) -> None:
    assert trial.joined().relay.eof_received() is True
    trial.relay.on_response(b"a")
    trial.relay.on_upstream_end()
    trial.relay.connection_lost(None)
    assert trial.done == ["channel eof", "envoy a", "envoy eof", "channel resume", "channel close"]


def test_a_visitor_whose_end_is_not_known_yet_ends_no_more_than_its_own_connection(trial: Trial) -> None:
    trial.joined().envoy.is_reset = True
    trial.relay.on_upstream_end()
    assert trial.done == ["envoy abort"]


def test_an_upstream_that_has_sent_all_is_still_sent_to(trial: Trial) -> None:
    trial.joined().relay.on_upstream_end()
    trial.relay.data_received(b"a")
    trial.relay.eof_received()
    assert trial.done == ["envoy eof", "channel a", "channel eof"]


def test_a_visitor_who_has_sent_all_before_the_channel_is_open_is_heard_in_order(trial: Trial) -> None:
    trial.relay.on_connected(trial.envoy)
    trial.relay.data_received(b"a")
    trial.relay.eof_received()
    trial.relay.on_opened(trial.channel)
    assert trial.done == ["open", "envoy pause", "channel a", "channel eof", "envoy resume"]


@pytest.mark.parametrize("moves", ["data_received", "on_response", ""])
@pytest.mark.parametrize("ended", ["eof_received", "on_upstream_end"])
def test_what_is_half_closed_ends_when_nothing_moves_any_more(trial: Trial, ended: str, moves: str) -> None:
    getattr(trial.joined().relay, ended)()
    assert [timer.seconds for timer in trial.timers if not timer.is_cancelled] == [300]
    trial.relay.on_stalled("session")
    trial.relay.on_drained("session")  # which does not end the wait
    idle = next(timer for timer in reversed(trial.timers) if not timer.is_cancelled)
    assert idle.seconds == 300
    if moves:
        getattr(trial.relay, moves)(b"a")
    trial.done.clear()
    idle.call()
    assert trial.done == ([] if moves else ["envoy abort", "channel abort"])


def test_the_upstream_reads_who_the_visitor_is_before_all_else() -> None:
    trial = Trial()
    trial.relay = Relay(trial, trial, Limits(), b"who ")
    trial.relay.on_connected(trial.envoy)
    trial.relay.on_opened(trial.channel)
    trial.relay.data_received(b"a")
    assert trial.done == ["open", "channel who ", "envoy resume", "channel a"]
    assert trial.events == [b"a"]


def _answered_early(trial: Trial) -> Watch:
    """Answer before the request is complete; return the timer that the answer waits for."""
    trial.joined().is_requesting = True
    trial.relay.on_response(b"413")
    trial.relay.on_upstream_end()
    trial.relay.on_channel_closed()
    trial.done.clear()
    return next(timer for timer in trial.timers if timer.seconds == 0.5)


def test_a_response_before_the_end_of_its_request_waits_for_that_end_and_what_follows_the_channel_is_dropped(
    trial: Trial,
) -> None:
    timer = _answered_early(trial)
    trial.relay.data_received(b"a")
    assert trial.done == []
    trial.is_requesting = False
    trial.relay.data_received(b"b")
    assert trial.done == ["envoy 413", "envoy eof", "envoy eof"]
    assert timer.is_cancelled
    trial.relay.connection_lost(None)
    assert trial.done[-1] == "closed"


def test_a_response_waits_no_longer_when_its_client_sends_nothing_more(trial: Trial) -> None:
    timer = _answered_early(trial)
    trial.relay.data_received(b"a")
    timer.call()
    assert trial.done == []
    trial.timers[-1].call()
    assert trial.done == ["envoy 413", "envoy eof", "envoy eof"]


def test_a_response_waits_for_at_most_five_seconds(trial: Trial) -> None:
    _answered_early(trial)
    for _ in range(10):
        assert trial.done == []
        trial.relay.data_received(b"a")
        trial.timers[-1].call()
    assert trial.done == ["envoy 413", "envoy eof", "envoy eof"]


def test_a_response_of_more_than_64_kib_does_not_wait(trial: Trial) -> None:
    trial.joined().is_requesting = True
    trial.relay.on_response(b"a" * (64 << 10))
    assert trial.done == []
    trial.relay.on_response(b"b")
    assert trial.done == ["envoy " + "a" * (64 << 10), "envoy b"]


def test_a_connection_that_its_upstream_has_closed_ends_when_envoy_does_not_close_it(trial: Trial) -> None:
    _answered_early(trial).call()
    trial.timers[-1].call()
    assert (trial.timers[-1].seconds, trial.done[-1]) == (5, "envoy close")


def test_a_visitor_who_leaves_before_the_end_of_its_request_is_not_answered(trial: Trial) -> None:
    timer = _answered_early(trial)
    trial.relay.connection_lost(None)
    assert (timer.is_cancelled, trial.done) == (True, ["closed"])


def test_what_comes_while_the_channel_closes_is_dropped(trial: Trial) -> None:
    trial.joined().channel.is_gone = True
    trial.relay.data_received(b"a")
    assert trial.done == []
