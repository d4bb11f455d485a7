"""Which store the environment names: its table, its key, its region and its endpoint."""

import os


def table_name() -> str:
    return os.environ.get("TABLE_NAME", "tunnel-edge")


def key_id() -> str:
    return os.environ.get("KEY_ID", "alias/tunnel-edge")


def endpoint() -> str:
    """Return where calls go, without what a URL may hold beside it; "AWS" where nothing else is set."""
    named = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("LOCALSTACK_HOST")
    return named.rpartition("@")[2] if named else "AWS"
