"""Events that lie below newer ones."""

from chalicelib import ids
from tests.conftest import Served, client_of
from tests.transports import key_in

TABLE = "tunnel-edge"


def bury(api: Served, token: str, count: int) -> None:
    """Write the newest event of a key as many times more, as newer ones."""
    newest = api.client().get(f"/audit_events?limit=1&actor_id={key_in(token)}").json["audit_events"][0]["id"]
    store = client_of(api.cloud, "dynamodb")
    pages = store.get_paginator("scan").paginate(TableName=TABLE)
    record = next(item for page in pages for item in page["Items"] if item["id"]["S"] == newest)
    for _ in range(0, count, 25):
        copies = [{**record, "id": {"S": ids.new("evt")}} for _ in range(25)]
        store.batch_write_item(RequestItems={TABLE: [{"PutRequest": {"Item": copy}} for copy in copies]})
