"""`migrate`: its progress, what it lists, and a run that was stopped."""

import pytest

from chalicelib import __main__ as operator
from chalicelib import ids
from chalicelib.model import migrations
from chalicelib.model.accounts import credential_usage
from chalicelib.model.limits import shared_counts
from chalicelib.model.names import base_names
from chalicelib.operator import migrate
from tests import names
from tests.old_records import put, read_answers, records, store_records
from tests.records import list_all
from tests.transports import Client


@pytest.mark.parametrize("scope", ["accounts", "/ssh_credentials"])
def test_a_table_of_1_x_is_refused_and_left_as_it_is(scope: str, capsys: pytest.CaptureFixture[str]) -> None:
    store_records("44e6111")
    for record in records():
        if record["scope"]["S"].endswith(scope):
            put({name: value for name, value in record.items() if name not in ("schema", "revision")})
    before = records()
    with pytest.raises(SystemExit) as error:
        operator.main(["migrate"])
    assert error.value.code == (
        "The table tunnel-edge has records of 1.x, which this version cannot read: upgrade it to 2.0.0 first, and run"
        " 'migrate --apply' of 2.0.0 ('Upgrading' in infra/README.md)."
    )
    assert (records(), capsys.readouterr().out) == (before, "")


def test_counts_without_a_format_are_no_records_of_1_x(admin: Client, capsys: pytest.CaptureFixture[str]) -> None:
    reader = admin.with_token(admin.create("/api_keys", {"scopes": ["edges:read"]})["token"])
    assert reader.get("/api_keys").status == 403
    shared_counts.add("rates#test", 7, 1)
    credential_usage.record_refusal(ids.new("fcred"), "expired")
    plain = [record for record in list_all() if "schema" not in record and "revision" not in record]
    assert len(plain) == 3
    operator.main(["migrate", "--apply"])
    assert "to be rewritten" in capsys.readouterr().out
    assert all(record in [*list_all()] for record in plain)


def test_the_progress_of_a_migration_goes_to_the_error_channel(capsys: pytest.CaptureFixture[str]) -> None:
    store_records("44e6111")
    operator.main(["migrate"])
    assert capsys.readouterr().err == (
        "Reading the table … The format of records stays the same, because RECORD_FORMAT is not set.\n"
    )


def test_malformed_records_are_listed_and_left_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    store_records("44e6111")
    wrong = {"body": {"M": {"created_at": {"N": "7"}, "hostports": {"N": "7"}}}}
    malformed = [
        {**record, **wrong} for record in records() if record["scope"]["S"].endswith(("/bot_users", "/edges/https"))
    ]
    for record in malformed:
        put(record)
    operator.main(["migrate", "--apply"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("The record ")]
    assert sorted(line.split()[2] for line in lines) == sorted(record["id"]["S"] for record in malformed)
    assert all(record in records() for record in malformed)


@pytest.mark.usefixtures("tunnel_domain")
def test_accounts_with_a_name_that_the_operator_has_reserved_since_are_listed(
    admin: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as former:
        former.setattr(base_names, "OPERATOR_NAMES", frozenset())
        edge = admin.create("/edges/https", {"hostports": [f"sign-in.{names.D}:443"]})["id"]
        admin.create("/edges/https", {"hostports": [f"x.sign-in-too.{names.D}:443"]})
    operator.main(["migrate"])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "which the operator has reserved since" in line)
    assert line.startswith(f"{admin.account} has the name sign-in.{names.D}, ")
    admin.delete(f"/edges/https/{edge}")
    operator.main(["migrate"])
    assert "which the operator has reserved since" not in capsys.readouterr().out


def test_a_migration_can_be_stopped_and_continued() -> None:
    client, answers = store_records("44e6111")
    forms, old = migrate.forms(), [*list_all()]
    lacking = [record for record in old if migrations.list_needed(record, forms)]
    assert all(migrations.apply(record, forms) for record in lacking[::2])
    applied = [migrations.apply(record, forms) for record in lacking]
    assert not all(applied)  # some have changed since they were read
    assert all(migrations.apply(record, forms) for record in list_all())
    assert not any(migrations.list_needed(record, forms) for record in list_all())
    assert read_answers(client, answers) == answers
