"""Plans and resources of names, with the current values of the service and the operator."""

from edge.control.names.name_builder import EnvoyNames
from edge.link.authority import KeyPair
from edge.plan.names import NamePlan
from edge.process.settings import Settings
from edge.serving import name_resources
from tests.edge.plan import worlds

PAIR, SETTINGS = KeyPair("CHAIN", "KEY"), Settings()
TUNNEL = worlds.tunnel(name=worlds.HOST)


def builder(special: list[NamePlan]) -> EnvoyNames:
    return EnvoyNames(SETTINGS, "PEM", lambda: worlds.SERVICE, lambda: PAIR, special.append)


def test_only_special_names_are_handed_on() -> None:
    special: list[NamePlan] = []
    made = builder(special)
    normal = made.plan(worlds.HOST, worlds.records_of(worlds.GATEWAY, TUNNEL), worlds.NOW)
    assert (bool(normal.certificate), normal.is_special, special) == (True, False, [])
    edge = worlds.edge(worlds.route(), version="1.3")
    records = worlds.records_of(worlds.GATEWAY, worlds.tunnel(), worlds.group(), edge)
    found = made.plan(worlds.HOST, records, worlds.NOW)
    assert (found.is_special, special) == (True, [found])


def test_the_resources_are_those_of_the_account_s_records() -> None:
    records, made = worlds.records_of(worlds.GATEWAY, TUNNEL), builder([])
    plan, view = made.plan(worlds.HOST, records, worlds.NOW), worlds.view_of(worlds.GATEWAY, TUNNEL)
    expected = name_resources.build_name_resources(plan, PAIR, view, "PEM", SETTINGS)
    assert expected.clusters
    assert made.build(plan, records, made.operator_pair()) == expected
    assert made.build_certificate("A.example", PAIR) == name_resources.build_certificate_only("A.example", PAIR)
