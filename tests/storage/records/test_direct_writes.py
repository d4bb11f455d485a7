"""Writes without an audit event."""

from chalicelib.storage.client import dynamodb
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import direct_writes


def test_merging_creates_a_record() -> None:
    direct_writes.merge("edge#/hosts", "one", {"names": ["a"]}, lease=7)
    record = {"scope": "edge#/hosts", "id": "one", "body": {"names": ["a"]}, "lease": 7, "revision": 1, "schema": 2}
    assert dynamodb.get("edge#/hosts", "one") == record


def test_merging_sets_only_its_fields_and_attributes() -> None:
    record = {"scope": "edge#/hosts", "id": "one", "body": {"names": ["a"], "newer": 1}, "lease": 7, "revision": 3}
    dynamodb.do(Write.put({**record, "future": "kept"}))
    direct_writes.merge("edge#/hosts", "one", {"names": ["b"]}, lease=8)
    changed_fields = {"body": {"names": ["b"], "newer": 1}, "lease": 8, "revision": 4, "schema": 2}
    assert dynamodb.get("edge#/hosts", "one") == {**record, **changed_fields, "future": "kept"}
