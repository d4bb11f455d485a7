"""What stays as it was created: the fields of each kind that no change may name."""

import pytest

from chalicelib import resources
from tests.refusals import assert_invalid
from tests.samples import Collection
from tests.transports import Client

CHANGEABLE = {
    "/api_keys": "description, metadata",
    "/bot_users": "description, metadata, name, active",
    "/certificate_authorities": "description, metadata",
    "/ssh_certificate_authorities": "description, metadata",
    "/ssh_credentials": "description, metadata, acl",
    "/ssh_host_certificates": "description, metadata",
    "/ssh_user_certificates": "description, metadata",
    "/tls_certificates": "description, metadata",
}


@pytest.mark.parametrize("path", CHANGEABLE)
def test_a_change_names_no_field_that_stays_as_it_was_created(admin: Client, path: str) -> None:
    collection = Collection.of(admin, next(resource for resource in resources.load_all() if resource.kind.path == path))
    entry = collection.create()
    fixed = {name: value for name, value in entry.items() if name not in ("id", *CHANGEABLE[path].split(", "))}
    hidden = {"private_key": "", "private_key_pem": "", "private_key_type": "", "expires_at": None, "admin": True}
    answer = collection.client.patch(f"{collection.path}/{entry['id']}", {**fixed, **hidden})
    assert_invalid(answer, dict.fromkeys([*fixed, *hidden], f"is not accepted here; accepted: {CHANGEABLE[path]}"))
    assert collection.read(entry["id"]) == entry
