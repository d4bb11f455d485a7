"""Fields that several resources have, with their rules (SPEC 2.1–2.3)."""

from datetime import datetime
from typing import Annotated

from chalicelib import domains
from chalicelib.schema.json_schema import Documented
from chalicelib.schema.rules import ONE_LINE, PRINTABLE, RFC_3339, After, form, id_of, if_empty, if_null, max_bytes
from chalicelib.schema.shapes import ABSENT, Shape

MAX_DESCRIPTION, MAX_METADATA, MAX_DOMAIN = 255, 4096, domains.MAX_LENGTH
DOMAIN = domains.PATTERN


def _check_owner_id(text: str) -> str:
    return text and str(OWNER.check(text))


OWNER = id_of("owner_id", "must be the id of a user (usr_…) or bot (bot_…)")

Text = Annotated[str, if_null("")]
Line = Annotated[str, ONE_LINE]
Name = Annotated[str, PRINTABLE, max_bytes(255)]
Description = Annotated[Text, max_bytes(MAX_DESCRIPTION)]
Metadata = Annotated[Text, max_bytes(MAX_METADATA)]
Time = Annotated[datetime | None, RFC_3339]
OwnerId = Annotated[str, After(_check_owner_id, OWNER.json_schema), if_empty("")]

Domain = Annotated[str, form(DOMAIN, "must be a domain, for example example.com", max_length=MAX_DOMAIN)]
BackendId = Annotated[str, id_of("backend_id", "must be the id of a backend (bkd…_…)")]

Uri = Annotated[str, Documented({"format": "uri"})]
Timestamp = Annotated[str, Documented({"format": "date-time"})]
# the format of secrets: clients that are generated from the OpenAPI document hide a value with this format
SECRET = Documented({"format": "password"})


class DescribedShape(Shape):
    """The two fields that every resource has. A PATCH leaves fields that it does not contain unchanged."""

    description: Description = ""
    f"""Description of the resource, optional, at most {MAX_DESCRIPTION} bytes."""

    metadata: Metadata = ""
    f"""Arbitrary user-defined data, optional, at most {MAX_METADATA} bytes. Typically a serialized JSON text."""


class Shown(Shape):
    """The fields that responses have in addition to the fields of requests."""

    id: str
    """Unique identifier; the order of ids is the order of creation."""

    uri: Uri
    """Absolute URL of the resource."""

    created_at: Timestamp
    """When the resource was created, RFC 3339."""


class TracedShape(Shown):
    """The field of responses that names the creator of the resource."""

    created_by: str = ABSENT
    """The id of the API key that created the resource, or `operator`; absent if unknown."""


class Ref(Shape):
    """A reference to another resource."""

    id: str
    """Its identifier."""

    uri: str
    """Absolute URL of the resource; empty for tunnel sessions and endpoints, which have no URL."""
