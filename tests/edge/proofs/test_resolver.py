"""Looks at the records that prove a domain, over sockets, at name servers whose answers are written here."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import dns.asyncresolver
import dns.name
import pytest

from chalicelib.model.names import proofs
from chalicelib.model.names.proofs import CheckResult
from edge.process.settings import SettingError
from edge.proofs import servers
from edge.proofs.resolver import Resolver
from edge.proofs.servers import AuthoritativeServers, ConfiguredServers, Panel, Server
from tests.conftest import least
from tests.live.edge.nameservers import NameServer, serving

VALUE, TARGET = "verification=d7rk2m", "t4wq8z.proof.tunnels.example"
PROOF = proofs.begin(0, value=VALUE, cname_target=TARGET)
TXT, CNAME = "_tunnel-verification.shop.example", "shop.example"
NO_TEXT = f"There is no TXT record {TXT}."
PRESENT = CheckResult("present")
LATE = "The name servers of shop.example did not answer within three seconds."


def absent(error: str) -> CheckResult:
    return CheckResult("absent", error)


def unknown(error: str) -> CheckResult:
    return CheckResult("unknown", error)


@dataclass
class Internet:
    """A resolver that finds the name servers of zones, servers that may be asked, and one that must not be."""

    finder: NameServer = field(default_factory=lambda: NameServer("127.0.0.1"))
    servers: list[NameServer] = field(
        default_factory=lambda: [NameServer(f"127.0.0.{number}") for number in (2, 3, 4, 5)]
    )
    private: NameServer = field(default_factory=lambda: NameServer("127.0.0.9"))

    def __post_init__(self) -> None:
        self.delegate("shop.example", "127.0.0.2", "127.0.0.3")

    def delegate(self, zone: str, *addresses: str) -> None:
        """Have a zone's name servers be at these addresses."""
        hosts = [f"ns{number}.{zone}" for number, _ in enumerate(addresses)]
        self.finder.records[zone, "NS"] = hosts
        for host, address in zip(hosts, addresses, strict=True):
            self.finder.records[host, "A"] = [address]

    def write(self, name: str, kind: str, *values: str, at: tuple[int, ...] = (0, 1, 2)) -> None:
        for index in at:
            self.servers[index].records[name, kind] = list(values)

    def look(self, domain: str = "shop.example") -> CheckResult:
        return asyncio.run(self._resolver().check_proof(domain, PROOF))

    def find_caa(self, domain: str) -> frozenset[str] | None:
        return asyncio.run(self._resolver().find_caa(domain))

    def find_without(self, name: str, value: str) -> list[str]:
        return asyncio.run(self._resolver().find_without(name, value))

    def _resolver(self) -> Resolver:
        finder = dns.asyncresolver.Resolver(configure=False)
        finder.nameservers, finder.port = ["127.0.0.1"], self.finder.port
        permitted = {server.address for server in self.servers}
        source = AuthoritativeServers(
            servers.limit_answers(finder), may_ask=permitted.__contains__, port=self.finder.port
        )
        return Resolver(source)


@pytest.fixture
def internet() -> Iterator[Internet]:
    internet = Internet()
    with serving(internet.finder, *internet.servers, internet.private):
        yield internet


def test_no_record_proves_nothing(internet: Internet) -> None:
    assert internet.look() == absent(NO_TEXT)


def test_the_text_record_proves_a_domain_and_all_names_below_it(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE)
    assert internet.look() == internet.look("*.shop.example") == PRESENT
    assert [server.recursions for server in internet.servers] == [0] * 4


@pytest.mark.parametrize("value", ["", "x", VALUE.upper(), f"{VALUE}x", f"{VALUE} {VALUE}", TARGET])
def test_a_wrong_value_proves_nothing(internet: Internet, value: str) -> None:
    internet.write(TXT, "TXT", value)
    wrong = f"The TXT record {TXT} does not have the value of this reservation: change the record."
    assert internet.look() == absent(wrong if value else NO_TEXT)


def test_of_two_values_one_suffices(internet: Internet) -> None:
    internet.write(TXT, "TXT", "verification=of-somebody-else", VALUE)
    assert internet.look() == PRESENT


def test_a_record_comes_and_goes(internet: Internet) -> None:
    kinds = [internet.look().kind]
    internet.write(TXT, "TXT", VALUE)
    kinds.append(internet.look().kind)
    internet.write(TXT, "TXT")
    assert [*kinds, internet.look().kind] == ["absent", "present", "absent"]


@pytest.mark.parametrize("length", [1, 2, 8])
def test_aliases_that_lead_to_the_target_prove_a_domain(internet: Internet, length: int) -> None:
    names = [CNAME, *(f"a{number}.shop.example" for number in range(length - 1)), TARGET]
    for name, next_name in pairwise(names):
        internet.write(name, "CNAME", next_name.upper())
    assert internet.look() == PRESENT


def test_aliases_are_followed_through_zones_with_name_servers_of_their_own(internet: Internet) -> None:
    internet.delegate("other.example", "127.0.0.3", "127.0.0.4")
    internet.write(CNAME, "CNAME", "to.other.example", at=(0, 1))
    internet.write("to.other.example", "CNAME", TARGET, at=(1, 2))
    assert internet.look() == PRESENT
    assert ("to.other.example", "CNAME", "udp") not in internet.servers[0].questions


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (
            ["elsewhere.shop.example"],
            f"shop.example has a CNAME record, but it does not lead to {TARGET}: change the record.",
        ),
        ([f"x.{TARGET}"], f"shop.example has a CNAME record, but it does not lead to {TARGET}: change the record."),
        ([CNAME], "The CNAME records of shop.example form a loop."),
        (["a.shop.example", CNAME], "The CNAME records of shop.example form a loop."),
        (["a.shop.example", "b.shop.example", "a.shop.example"], "The CNAME records of shop.example form a loop."),
        (
            [*(f"a{number}.shop.example" for number in range(8)), TARGET],
            "The CNAME records of shop.example form a chain of more than 8 names.",
        ),
    ],
)
def test_aliases_that_lead_elsewhere_prove_nothing(internet: Internet, names: list[str], error: str) -> None:
    internet.delegate("tunnels.example", "127.0.0.2", "127.0.0.3")
    for name, next_name in pairwise([CNAME, *names]):
        internet.write(name, "CNAME", next_name)
    assert internet.look() == absent(f"{NO_TEXT} {error}")


def test_an_alias_of_all_names_below_proves_those_alone(internet: Internet) -> None:
    internet.write("*.shop.example", "CNAME", TARGET)
    assert (internet.look("*.shop.example"), internet.look()) == (PRESENT, absent(NO_TEXT))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({}, set()),
        ({"shop.example": "0 issue ca.example"}, {"0 issue ca.example"}),
        ({"example": "0 issue ca.example"}, {"0 issue ca.example"}),
        ({"shop.example": "0 issue ;", "example": "0 issue ca.example"}, {"0 issue ;"}),
        ({"b.shop.example": "128 issuewild ca.example; a=b"}, {"128 issuewild ca.example; a=b"}),
    ],
)
def test_caa_records_are_those_of_the_closest_ancestor(
    internet: Internet, records: dict[str, str], expected: set[str]
) -> None:
    internet.delegate("example", "127.0.0.2", "127.0.0.3")
    internet.delegate("b.shop.example", "127.0.0.2", "127.0.0.3")
    internet.write("a.shop.example", "CNAME", "b.shop.example")
    for name, text in records.items():
        internet.write(name, "CAA", text)
    assert internet.find_caa("*.a.shop.example") == frozenset(expected)


def test_caa_records_of_silent_servers_are_unknown(internet: Internet) -> None:
    internet.servers[0].rcode = internet.servers[1].rcode = "SERVFAIL"
    assert internet.find_caa("shop.example") is None


def test_all_name_servers_must_return_a_record_for_a_challenge(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE, at=(1,))
    assert internet.find_without(TXT, VALUE) == ["127.0.0.2"]
    internet.write(TXT, "TXT", "x", VALUE)
    assert internet.find_without(TXT, VALUE) == []
    internet.servers[1].is_silent = True
    assert internet.find_without(TXT, VALUE) == ["127.0.0.3"]


def test_the_text_record_is_not_followed_as_an_alias(internet: Internet) -> None:
    internet.write(TXT, "CNAME", "_tunnel-verification.other.example")
    internet.write("_tunnel-verification.other.example", "TXT", VALUE)
    assert internet.look() == absent(NO_TEXT)


def test_a_cut_answer_is_asked_for_over_tcp(internet: Internet) -> None:
    internet.write(TXT, "TXT", *(f"{number}{'x' * 300}" for number in range(10)), VALUE)
    for server in internet.servers:
        server.truncates = True
    assert internet.look() == PRESENT
    assert (TXT, "TXT", "tcp") in internet.servers[0].questions


@pytest.mark.parametrize("values", [["x" * 4096], [str(number) for number in range(64)]])
@pytest.mark.parametrize("truncates", [False, True])
def test_answers_without_measure_say_nothing(internet: Internet, values: list[str], truncates: bool) -> None:
    internet.write(TXT, "TXT", VALUE, *values)
    for server in internet.servers:
        server.truncates = truncates
    why = "answers with more than 64 records or 4 KiB"
    assert internet.look() == unknown(f"No name server of {TXT} gives a usable answer: one {why}.")


def test_a_zone_with_name_servers_without_measure_is_not_looked_at(internet: Internet) -> None:
    internet.delegate("shop.example", *["127.0.0.2", "127.0.0.3"] * 50)
    assert internet.look() == unknown(
        f"The name servers of {TXT} cannot be found: check the domain and its NS records."
    )
    assert internet.servers[0].questions == []


def test_a_question_that_is_lost_is_asked_again(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE)
    for server in internet.servers:
        server.loses = 2
    assert internet.look() == PRESENT


def test_one_of_two_servers_that_lies_proves_nothing(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE, at=(0,))
    assert internet.look() == unknown(
        f"The name servers of {TXT} do not agree: wait until all of them have the same records."
    )


def test_two_of_three_servers_outvote_the_one_that_lies(internet: Internet) -> None:
    internet.delegate("shop.example", "127.0.0.2", "127.0.0.3", "127.0.0.4")
    internet.write(TXT, "TXT", VALUE, at=(1,))
    assert internet.look() == absent(NO_TEXT)
    internet.write(TXT, "TXT", VALUE, at=(0, 1))
    assert internet.look() == PRESENT


@pytest.mark.parametrize("rcode", ["SERVFAIL", "REFUSED"])
def test_servers_that_fail_say_nothing(internet: Internet, rcode: str) -> None:
    internet.write(TXT, "TXT", VALUE)
    internet.servers[1].rcode = rcode
    reason = f"Only one name server of {TXT} answers, and two must agree; another server answers {rcode}."
    assert internet.look() == unknown(reason)
    internet.servers[0].rcode = rcode
    assert internet.look() == unknown(f"No name server of {TXT} gives a usable answer: one answers {rcode}.")


def test_servers_that_do_not_know_the_zone_say_nothing(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE)
    internet.servers[0].is_authoritative = internet.servers[1].is_authoritative = False
    assert internet.look() == unknown(
        f"No name server of {TXT} gives a usable answer: one is not authoritative for this zone."
    )


def test_a_silent_server_says_nothing_and_does_not_outvote_two(internet: Internet) -> None:
    internet.write(TXT, "TXT", VALUE)
    internet.servers[1].is_silent = True
    reason = f"Only one name server of {TXT} answers, and two must agree; another server does not answer."
    assert internet.look() == unknown(reason)
    internet.delegate("shop.example", "127.0.0.2", "127.0.0.3", "127.0.0.4")
    assert internet.look() == PRESENT


def test_silence_ends_a_look_after_three_seconds(internet: Internet) -> None:
    internet.finder.is_silent = True

    def look() -> float:
        start = time.monotonic()
        assert internet.look() == unknown(LATE)
        return time.monotonic() - start

    assert 2.9 < least(look, bound=4) < 4


def test_an_alias_into_silence_does_not_hide_the_text_record(internet: Internet) -> None:
    internet.delegate("slow.example", "127.0.0.4", "127.0.0.5")
    internet.servers[2].is_silent = internet.servers[3].is_silent = True
    internet.write(CNAME, "CNAME", "to.slow.example", at=(0, 1))
    internet.write(TXT, "TXT", VALUE, at=(0, 1))
    assert internet.look() == PRESENT


@pytest.mark.parametrize("addresses", [["127.0.0.9"], ["127.0.0.9", "10.0.0.1", "127.0.0.2"], ["127.0.0.9"] * 3])
def test_servers_at_addresses_that_are_not_public_are_never_asked(internet: Internet, addresses: list[str]) -> None:
    internet.delegate("shop.example", *addresses)
    internet.private.records[TXT, "TXT"] = [VALUE]
    count = "only one name server" if "127.0.0.2" in addresses else "no name server"
    assert internet.look() == unknown(f"{TXT} has {count} with a public address: at least two are required.")
    assert internet.private.questions == []


def test_one_address_under_two_names_is_one_server(internet: Internet) -> None:
    internet.delegate("shop.example", "127.0.0.2", "127.0.0.2")
    internet.write(TXT, "TXT", VALUE)
    assert internet.look() == unknown(
        f"{TXT} has only one name server with a public address: at least two are required."
    )


def test_at_most_four_servers_are_asked() -> None:
    internet = Internet(servers=[NameServer(f"127.0.0.{number}") for number in range(2, 9)])
    internet.delegate("shop.example", *(server.address for server in internet.servers))
    internet.write(TXT, "TXT", VALUE, at=tuple(range(7)))
    with serving(internet.finder, *internet.servers):
        assert internet.look() == PRESENT
    assert sum(bool(server.questions) for server in internet.servers) <= 4


def test_a_name_that_leaves_no_room_for_the_label_in_front_has_no_text_record(internet: Internet) -> None:
    label = "a" * 63
    long = f"{label}.{label}.{label}.{'a' * 40}.shop.example"
    internet.write(long, "CNAME", TARGET)
    assert internet.look(long) == PRESENT


def test_servers_that_are_set_are_asked_alone_whatever_their_addresses() -> None:
    first, second = NameServer("127.0.0.1"), NameServer("127.0.0.2", is_authoritative=False)
    first.records[TXT, "TXT"] = [VALUE]
    with serving(first, second) as port:
        both = Resolver(ConfiguredServers([Server("127.0.0.1", port), Server("127.0.0.2", port)]))
        assert asyncio.run(both.check_proof("shop.example", PROOF)).kind == "unknown"
        second.is_silent = True
        assert asyncio.run(both.check_proof("shop.example", PROOF)).kind == "unknown"
        second.is_silent = False
        second.records[TXT, "TXT"] = [VALUE]
        assert asyncio.run(both.check_proof("shop.example", PROOF)) == PRESENT
        resolver = Resolver(ConfiguredServers([Server("127.0.0.1", port)]))
        assert asyncio.run(resolver.check_proof("shop.example", PROOF)) == PRESENT


def test_an_edge_needs_name_servers_or_a_resolver_that_finds_them(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^This host has no DNS resolver .* or set DNS_SERVERS\.$"):
        servers.build_source((), resolvers=tmp_path / "none.conf")
    assert asyncio.run(servers.build_source([("127.0.0.1", 53)]).panel(dns.name.from_text("a.example."))) == Panel(
        (Server("127.0.0.1", 53),), quorum=1, role="resolver"
    )
