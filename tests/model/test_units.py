"""What certificates of one account cost the store, by partition key: how many a second it takes follows from that."""

from typing import Any

from bench import calls, units
from tests.samples import public_key
from tests.transports import Client, key_in

COUNT = 10


def test_the_record_of_a_certificate_and_its_event_are_one_unit_each(admin: Client) -> None:
    authority = admin.create("/ssh_certificate_authorities", {})["id"]
    fields: dict[str, Any] = {"principals": ["deploy", "admin"], "description": "The laptop of the release team"}
    body = {"ssh_certificate_authority_id": authority, "public_key": f"{public_key()} alice@laptop", **fields}
    for path in ("/ssh_user_certificates", "/ssh_host_certificates"):
        with calls.recording() as recording:
            for _ in range(COUNT):
                admin.create(path, body)
        units_by_key = units.by_key(recording)
        log = sum(units_by_key[scope] for scope in units_by_key if scope.startswith("changes#"))
        counts = {key.replace(admin.account, ""): count for key, count in units_by_key.items() if "changes#" not in key}
        of_resources = [counts.pop(key) for key in list(counts) if key.startswith("indexed=")]
        assert counts == {
            f"#{path}": 2 * COUNT,  # a transaction writes each twice
            "#/audit_events": 2 * COUNT,
            f"acted=#{key_in(admin.token)}": COUNT,
        }
        assert of_resources == [1] * COUNT
        assert log == (2 * COUNT if path == "/ssh_user_certificates" else 0)  # over four shards
