"""What Terraform plans for a configuration and a prior state."""

from typing import Any

import pytest

from tunneledge_provider.kinds import Attribute, Kind
from tunneledge_provider.plans import Plan, plan
from tunneledge_provider.values import UNKNOWN

ENABLED = Attribute("enabled", "bool", optional=True, computed=True, shown="enabled")
SIZE = Attribute("size", "number", optional=True, computed=True, shown="size")
KIND = Kind(
    "thing",
    "/things",
    "/things/{id}",
    (
        Attribute("id", "string", computed=True, stable=True, shown="id"),
        Attribute("description", "string", optional=True, computed=True, shown="description"),
        Attribute("host", "string", required=True, fixed=True, format="host", shown="host"),
        Attribute("key", "string", required=True, fixed=True, sensitive=True, hidden=True, shown="key"),
        Attribute("limits", "object", optional=True, fixed=True, fields=(ENABLED,), shown="limits"),
        Attribute("size", "number", optional=True, computed=True, shown="size"),
        Attribute("target", "string", computed=True, shown="target"),
        Attribute("token", "string", computed=True, sensitive=True, shown="token"),
        Attribute("module", "object", optional=True, fields=(ENABLED, SIZE), shown="module"),
        Attribute("list", "objects", optional=True, fields=(ENABLED, SIZE), shown="list"),
        Attribute("certificate_id", "string", optional=True, computed=True, shown="certificate"),
        Attribute("policy", "object", optional=True, fields=(ENABLED,), shown="policy"),
    ),
    removals={"module": "module", "certificate_id": "certificate", "policy": "policy"},
    parts=("certificate_id", "policy"),
)
CONFIG: dict[str, Any] = {
    **dict.fromkeys(attribute.name for attribute in KIND.attributes),
    "host": "A.example",
    "key": "k",
}
PRIOR = {
    **CONFIG, "id": "1", "description": "", "host": "a.example", "size": 3, "target": "t", "token": "s",
}  # fmt: skip


def changes(config: dict[str, Any], prior: dict[str, Any] | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what the plan of an update changes in the prior state, and what needs another resource."""
    prior = PRIOR | (prior or {})
    planned = plan(KIND, CONFIG | config, prior)
    return {name: value for name, value in planned.state.items() if value != prior[name]}, planned.replaced


def test_a_creation_is_unknown_where_nothing_is_configured() -> None:
    planned = plan(KIND, CONFIG | {"module": {"enabled": None, "size": 5}}, None)
    assert planned == Plan(
        {
            **CONFIG, "id": UNKNOWN, "description": UNKNOWN, "size": UNKNOWN, "target": UNKNOWN, "token": UNKNOWN,
            "module": {"enabled": UNKNOWN, "size": 5},
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "prior", "changed_names", "replaced"),
    [
        ({}, {}, {}, ()),
        ({"description": "new"}, {}, {"description": "new"}, ()),
        ({"host": "other.example"}, {}, {"host": "other.example", "target": UNKNOWN}, ("host",)),
        ({"host": UNKNOWN}, {}, {"host": UNKNOWN, "target": UNKNOWN}, ("host",)),
        ({}, {"key": None}, {"key": "k"}, ()),  # imported
        ({"key": "other"}, {}, {"key": "other", "target": UNKNOWN}, ("key",)),
        ({"size": "3.0"}, {}, {}, ()),
        (
            {"limits": {"enabled": True}},
            {},
            {"limits": {"enabled": True}, "target": UNKNOWN},
            ("limits",),
        ),
        (
            {"module": {"enabled": None, "size": 1}},
            {},
            {"module": {"enabled": UNKNOWN, "size": 1}, "target": UNKNOWN},
            (),
        ),
        (
            {"module": {"enabled": None, "size": 1}},
            {"module": {"enabled": False, "size": 2}},
            {"module": {"enabled": False, "size": 1}, "target": UNKNOWN},
            (),
        ),
        ({}, {"module": {"enabled": True, "size": 2}}, {"module": None, "target": UNKNOWN}, ()),
        (
            {"size": 4, "module": {"enabled": True, "size": None}},
            {"module": {"enabled": True, "size": 3}},
            {"size": 4, "module": {"enabled": True, "size": UNKNOWN}, "target": UNKNOWN},
            (),
        ),
        (
            {"list": [{"enabled": None, "size": 1}, {"enabled": None, "size": 9}]},
            {"list": [{"enabled": True, "size": 1}]},
            {"list": [{"enabled": True, "size": 1}, {"enabled": UNKNOWN, "size": 9}], "target": UNKNOWN},
            (),
        ),
        ({}, {"certificate_id": "cert_1"}, {"certificate_id": None, "target": UNKNOWN}, ()),
        ({"policy": {"enabled": True}}, {"certificate_id": "cert_1", "policy": {"enabled": True}}, {}, ()),
        (
            {"policy": {"enabled": True}},
            {"certificate_id": "cert_1"},
            {"certificate_id": UNKNOWN, "policy": {"enabled": True}, "target": UNKNOWN},
            (),
        ),
        (
            {"certificate_id": "cert_2"},
            {"policy": {"enabled": True}},
            {"certificate_id": "cert_2", "policy": None, "target": UNKNOWN},
            (),
        ),
    ],
)
def test_an_update_changes_what_is_configured(
    config: dict[str, Any], prior: dict[str, Any], changed_names: dict[str, Any], replaced: tuple[str, ...]
) -> None:
    assert changes(config, prior) == (changed_names, replaced)
