"""Exports of audit events: the oldest first, each once, also where one was killed and gone on with."""

import json
import random
import resource
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from chalicelib import __main__ as operator
from chalicelib import clock, ids
from tests.events import mark, put
from tests.transports import Client


@pytest.fixture
def event_ids(admin: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the events of a busy account, the oldest first, two minutes after they were made."""
    mark(admin.account)
    event_ids = [put(admin.account, "ak_x", random.randrange(9)).id for _ in range(60)]
    now = clock.seconds() + 120
    monkeypatch.setattr(clock, "seconds", lambda: now)
    return event_ids


def ids_in(text: str) -> list[str]:
    return [json.loads(line)["id"] for line in text.splitlines()]


def export_events(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    operator.main(["audit", "export", *words])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_events_of_an_account_are_exported_the_oldest_first(
    admin: Client, event_ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    events = export_events(capsys, admin.account)
    assert [event["id"] for event in events][-60:] == event_ids
    assert [event["action"] for event in events][:3] == ["account.create", "user.create", "api_key.create"]
    assert events[0]["account"] == admin.account
    assert export_events(capsys, admin.account, "--after", event_ids[-3]) == events[-2:]
    assert export_events(capsys, admin.account, "--after", events[0]["created_at"]) == events
    assert export_events(capsys, admin.account, "--after", "2100-01-01T00:00:00Z") == []


@pytest.mark.usefixtures("event_ids")
def test_an_export_that_is_killed_anywhere_is_gone_on_with(admin: Client, tmp_path: Path) -> None:
    complete_file, cut = tmp_path / "whole.ndjson", tmp_path / "cut.ndjson"
    operator.main(["audit", "export", admin.account, "--into", str(complete_file)])
    content = complete_file.read_bytes()
    for length in (0, 1, *sorted(random.sample(range(2, len(content) - 1), 7)), len(content) - 1, len(content)):
        cut.write_bytes(content[:length])
        operator.main(["audit", "export", admin.account, "--into", str(cut)])
        assert cut.read_bytes() == content
    assert len({*ids_in(complete_file.read_text())}) == len(ids_in(complete_file.read_text())) > 60


def test_an_export_whose_process_is_killed_ten_times_is_gone_on_with(
    admin: Client, event_ids: list[str], tmp_path: Path
) -> None:
    complete_file, killed = tmp_path / "whole.ndjson", tmp_path / "killed.ndjson"
    operator.main(["audit", "export", admin.account, "--into", str(complete_file)])
    content = complete_file.read_bytes()
    for size in sorted(random.sample(range(len(content)), 10)):
        child = get_context("fork").Process(target=export_until_killed, args=(admin.account, killed, size))
        child.start()
        child.join(timeout=30)
        assert child.exitcode == -signal.SIGXFSZ
    operator.main(["audit", "export", admin.account, "--into", str(killed)])
    assert killed.read_bytes() == content
    assert ids_in(content.decode())[-60:] == event_ids


def export_until_killed(account: str, file: Path, size: int) -> None:
    """Export into a file; the system kills the process at the first byte behind that size, as SIGKILL would."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    operator.main(["audit", "export", account, "--into", str(file)])


def test_an_exported_event_has_the_fields_of_the_api_and_its_account(
    admin: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create("/backends/weighted", {})
    operator.main(["accounts", "disable", admin.account])
    operator.main(["accounts", "enable", admin.account])
    capsys.readouterr()
    api_events = admin.get("/audit_events").json["audit_events"][::-1]
    paths = [event["resource_uri"].removeprefix("http://localhost") for event in api_events]
    now = clock.seconds() + 120
    monkeypatch.setattr(clock, "seconds", lambda: now)
    for setting, base_url in (("https://api.example/", "https://api.example"), ("", "")):
        monkeypatch.setenv("BASE_URL", setting)
        expected = json.loads(json.dumps(api_events).replace("http://localhost", base_url))
        events = export_events(capsys, admin.account)
        assert [{name: event[name] for name in like} for event, like in zip(events, expected, strict=True)] == expected
        extra_fields = [event.keys() - like.keys() for event, like in zip(events, expected, strict=True)]
        assert extra_fields == [{"account", "resource_path"}] * len(api_events)
        assert [event["resource_path"] for event in events if event["resource_uri"]] == [path for path in paths if path]
        assert {event["account"] for event in events} == {admin.account}


def test_what_may_still_be_overtaken_is_left_to_the_next_export(
    admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.create("/backends/weighted", {})
    assert export_events(capsys, admin.account, "--after", clock.rfc3339(clock.now())) == []


def test_what_cannot_be_exported_is_said_in_a_sentence(admin: Client, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("notes\n")
    for words in ([ids.new("acct")], [admin.account, "--after", "yesterday"], [admin.account, "--into", str(other)]):
        with pytest.raises(SystemExit, match=r"^(There is no account|--after must be|The last complete line)"):
            operator.main(["audit", "export", *words])
    assert other.read_text() == "notes\n"
