"""The operator's commands for managed applications."""

import io
import json

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.sign_in import managed_apps
from tests.transports import Client


def test_an_application_is_stored_listed_and_removed(
    admin: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("very secret\n"))
    operator.main(["oauth-apps", "set", "gitlab", "--client-id", "app"])
    assert managed_apps.read_all()["gitlab"].open_secret() == "very secret"
    capsys.readouterr()
    operator.main(["oauth-apps", "list", "--json"])
    output = capsys.readouterr().out
    assert (json.loads(output)["client_id"], "secret" in output) == ("app", False)
    operator.main(["oauth-apps", "remove", "gitlab"])
    assert managed_apps.read_all() == {}
    with pytest.raises(SystemExit):
        operator.main(["oauth-apps", "remove", "gitlab"])


def test_an_empty_secret_is_refused(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(SystemExit):
        operator.main(["oauth-apps", "set", "gitlab", "--client-id", "app"])
    assert managed_apps.read_all() == {}
