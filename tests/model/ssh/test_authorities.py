"""A malformed authority signs nothing and is logged."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.records import put, read_record
from tests.samples import public_key
from tests.transports import RECORD, Client


@pytest.mark.parametrize("wrong", [{"body": "text"}, {"claims": 7}, {"sealed": "text"}, {"sealed": {"private_key": 7}}])
@pytest.mark.parametrize("path", ["/ssh_user_certificates", "/ssh_host_certificates"])
def test_a_certificate_of_a_malformed_authority_is_a_logged_fault(
    admin: Client, path: str, wrong: Mapping[str, Any]
) -> None:
    fields = {"ssh_certificate_authority_id": admin.create("/ssh_certificate_authorities", {})["id"]}
    intact = read_record(fields["ssh_certificate_authority_id"])
    put({**intact, **wrong})
    first = len(RECORD.logs)
    answer = admin.post(path, {**fields, "public_key": public_key()})
    assert (answer.status, answer.json["error_code"]) == (500, "internal_error")
    assert answer.json["details"] == {"operation_id": answer.headers["operation-id"]}
    lines = [json.loads(line) for line in RECORD.logs[first:] if line.startswith("{")]
    assert [line["operation_id"] for line in lines if line.get("event") == "malformed_record"] == [
        answer.headers["operation-id"]
    ]
    put(intact)
    assert admin.post(path, {**fields, "public_key": public_key()}).status == 201
