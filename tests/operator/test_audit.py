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
def made(admin: Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the events of a busy account, the oldest first, two minutes after they were made."""
    mark(admin.account)
    found = [put(admin.account, "ak_x", random.randrange(9)).id for _ in range(60)]
    now = clock.seconds() + 120
    monkeypatch.setattr(clock, "seconds", lambda: now)
    return found


def ids_in(text: str) -> list[str]:
    return [json.loads(line)["id"] for line in text.splitlines()]


def exported(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    operator.main(["audit", "export", *words])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_events_of_an_account_are_exported_the_oldest_first(
    admin: Client, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = exported(capsys, admin.account)
    assert [event["id"] for event in found][-60:] == made
    assert [event["action"] for event in found][:3] == ["account.create", "user.create", "api_key.create"]
    assert found[0]["account"] == admin.account
    assert exported(capsys, admin.account, "--after", made[-3]) == found[-2:]
    assert exported(capsys, admin.account, "--after", found[0]["created_at"]) == found
    assert exported(capsys, admin.account, "--after", "2100-01-01T00:00:00Z") == []


@pytest.mark.usefixtures("made")
def test_an_export_that_is_killed_anywhere_is_gone_on_with(admin: Client, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.ndjson", tmp_path / "cut.ndjson"
    operator.main(["audit", "export", admin.account, "--into", str(whole)])
    content = whole.read_bytes()
    for place in (0, 1, *sorted(random.sample(range(2, len(content) - 1), 7)), len(content) - 1, len(content)):
        cut.write_bytes(content[:place])
        operator.main(["audit", "export", admin.account, "--into", str(cut)])
        assert cut.read_bytes() == content
    assert len({*ids_in(whole.read_text())}) == len(ids_in(whole.read_text())) > 60


def test_an_export_whose_process_is_killed_ten_times_is_gone_on_with(
    admin: Client, made: list[str], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole.ndjson", tmp_path / "killed.ndjson"
    operator.main(["audit", "export", admin.account, "--into", str(whole)])
    content = whole.read_bytes()
    for size in sorted(random.sample(range(len(content)), 10)):
        child = get_context("fork").Process(target=export_until_killed, args=(admin.account, killed, size))
        child.start()
        child.join(timeout=30)
        assert child.exitcode == -signal.SIGXFSZ
    operator.main(["audit", "export", admin.account, "--into", str(killed)])
    assert killed.read_bytes() == content
    assert ids_in(content.decode())[-60:] == made


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
    shown = admin.get("/audit_events").json["audit_events"][::-1]
    paths = [event["resource_uri"].removeprefix("http://localhost") for event in shown]
    now = clock.seconds() + 120
    monkeypatch.setattr(clock, "seconds", lambda: now)
    for setting, base_url in (("https://api.example/", "https://api.example"), ("", "")):
        monkeypatch.setenv("BASE_URL", setting)
        expected = json.loads(json.dumps(shown).replace("http://localhost", base_url))
        found = exported(capsys, admin.account)
        assert [{name: event[name] for name in like} for event, like in zip(found, expected, strict=True)] == expected
        others = [event.keys() - like.keys() for event, like in zip(found, expected, strict=True)]
        assert others == [{"account", "resource_path"}] * len(shown)
        assert [event["resource_path"] for event in found if event["resource_uri"]] == [path for path in paths if path]
        assert {event["account"] for event in found} == {admin.account}


def test_what_may_still_be_overtaken_is_left_to_the_next_export(
    admin: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.create("/backends/weighted", {})
    assert exported(capsys, admin.account, "--after", clock.rfc3339(clock.now())) == []


def test_what_cannot_be_exported_is_said_in_a_sentence(admin: Client, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("notes\n")
    for words in ([ids.new("acct")], [admin.account, "--after", "yesterday"], [admin.account, "--into", str(other)]):
        with pytest.raises(SystemExit, match=r"^(There is no account|--after must be|The last complete line)"):
            operator.main(["audit", "export", *words])
    assert other.read_text() == "notes\n"
