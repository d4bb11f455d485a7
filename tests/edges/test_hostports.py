"""Hostports of edges: their form, and that no two edges of an account have one at the same time."""

from typing import Any

import pytest

from tests.refusals import assert_invalid, assert_refused
from tests.transports import Answer, Client

KINDS = ["/edges/https", "/edges/tls", "/edges/tcp"]
ON_443 = "must be of the form host:443, for example app.example.com:443"
ON_ANY = "must be of the form host:port with a port from 1 to 65535, for example app.example.com:443"
HOSTPORT = "app.example.com:443"

each_form = pytest.mark.parametrize("path", KINDS[1:])  # HTTPS edges have the same rule as TLS edges
NEXT = dict(zip(KINDS, [*KINDS[1:], KINDS[0]], strict=True))


def assert_taken(answer: Answer, index: int = 0) -> None:
    field = f"hostports.{index}"
    rule = "must be a value that no other resource uses"
    assert_refused(answer, 409, "conflict", f"'{field}' is in use already.", {field: rule})


def address(path: str, edge: dict[str, Any]) -> str:
    return f"{path}/{edge['id']}"


@each_form
def test_a_hostport_is_a_domain_and_a_port(admin: Client, path: str) -> None:
    hosts = ["example.com", "a.b.c.example.com", "*.example.com", "xn--mnchen-3ya.de", "1.tcp.example.com", "a-b.io"]
    hostports = [f"{host}:443" for host in hosts]
    assert admin.create(path, {"hostports": hostports})["hostports"] == hostports


@pytest.mark.parametrize("path", KINDS[:2])
def test_https_and_tls_edges_listen_on_443(admin: Client, path: str) -> None:
    bad_hostports = [f"example.com:{port}" for port in ("80", "8443", "0443", "44", "4433", "")]
    errors = {f"hostports.{index}": ON_443 for index, _ in enumerate(bad_hostports)}
    assert_invalid(admin.post(path, {"hostports": [*bad_hostports, HOSTPORT]}), errors)
    edge = admin.create(path, {"hostports": [HOSTPORT]})
    assert_invalid(admin.patch(address(path, edge), {"hostports": bad_hostports}), errors)
    assert admin.get(address(path, edge)).json == edge


def test_tcp_edges_listen_on_any_port(admin: Client) -> None:
    hostports = [f"example.com:{port}" for port in (1, 22, 443, 12345, 65535)]
    assert admin.create("/edges/tcp", {"hostports": hostports})["hostports"] == hostports
    bad_ports = ["0", "00", "022", "-1", "+1", "1.0", "1e3", "x", "", " 1", "1000000", "٤", "65536", "99999"]
    answer = admin.post("/edges/tcp", {"hostports": [f"example.com:{port}" for port in bad_ports]})
    assert_invalid(answer, {f"hostports.{index}": ON_ANY for index, _ in enumerate(bad_ports)})


@each_form
def test_a_host_has_at_most_253_characters(admin: Client, path: str) -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(longest) == 253
    hostports = [f"{longest}:443", f"*.{longest[2:]}:443"]
    assert admin.create(path, {"hostports": hostports})["hostports"] == hostports
    beyond = [f"b.{longest[1:]}:443", f"*.{longest[1:]}:443", f"*.{longest}:443"]
    answer = admin.post(path, {"hostports": beyond})
    rule = "must have a host of at most 253 characters"
    assert_invalid(answer, {f"hostports.{index}": rule for index, _ in enumerate(beyond)})


@each_form
def test_what_is_no_hostport_is_named(admin: Client, path: str) -> None:
    bad = ["", "example.com", ":443", "localhost:443", "10.0.0.1:443", "https://a.io:443", "a..io:443", "-a.io:443"]
    bad += ["a*.example.com:443", "*.*.example.com:443", "*:443", "a_b.io:443", "é.io:443", f"{'a' * 64}.io:443"]
    form = ON_ANY if path == "/edges/tcp" else ON_443
    answer = admin.post(path, {"hostports": bad})
    assert_invalid(answer, {f"hostports.{index}": form for index, _ in enumerate(bad)})
    answer = admin.post(path, {"hostports": [443, None]})
    assert_invalid(answer, {"hostports.0": "must be a string", "hostports.1": "must be a string"})
    assert_invalid(admin.post(path, {"hostports": HOSTPORT}), {"hostports": "must be an array"})


@each_form
def test_hostports_are_kept_in_lower_case_and_in_their_order(admin: Client, path: str) -> None:
    edge = admin.create(path, {"hostports": ["B.Example.COM:443", "A.example.com:443"]})
    assert edge["hostports"] == ["b.example.com:443", "a.example.com:443"]
    assert admin.get(address(path, edge)).json == edge
    answer = admin.patch(address(path, edge), {"hostports": ["A.EXAMPLE.com:443", "b.example.com:443"]})
    assert answer.json == {**edge, "hostports": ["a.example.com:443", "b.example.com:443"]}


@each_form
def test_the_hostports_of_an_edge_are_distinct_and_at_most_twenty(admin: Client, path: str) -> None:
    answer = admin.post(path, {"hostports": [HOSTPORT, HOSTPORT.upper()]})
    assert_invalid(answer, {"hostports": "must not name a hostport twice"})
    many = [f"a{number}.example.com:443" for number in range(21)]
    assert_invalid(admin.post(path, {"hostports": many}), {"hostports": "must have at most 20 entries"})
    assert admin.create(path, {"hostports": many[:20]})["hostports"] == many[:20]


@pytest.mark.parametrize(("path", "other"), [*NEXT.items(), ("/edges/tls", "/edges/tls")])
def test_a_hostport_is_held_by_one_edge_of_the_account(admin: Client, path: str, other: str) -> None:
    edge = admin.create(path, {"hostports": [HOSTPORT]})
    assert_taken(admin.post(other, {"hostports": ["new.example.com:443", HOSTPORT.upper()]}), index=1)
    own_edge = admin.create(other, {"hostports": ["own.example.com:443"]})
    assert_taken(admin.patch(address(other, own_edge), {"hostports": [HOSTPORT], "description": "new"}))
    assert admin.get(address(other, own_edge)).json == own_edge
    admin.delete(address(other, own_edge))
    admin.create(other, {"hostports": ["new.example.com:443"]})  # which the refused creation did not keep
    assert admin.get(address(path, edge)).json == edge


@pytest.mark.parametrize(("path", "other"), NEXT.items())
def test_a_deleted_edge_releases_its_hostports(admin: Client, path: str, other: str) -> None:
    edge = admin.create(path, {"hostports": [HOSTPORT, "b.example.com:443"]})
    admin.delete(address(path, edge))
    assert admin.create(other, {"hostports": [HOSTPORT]})["hostports"] == [HOSTPORT]


@each_form
def test_a_changed_edge_releases_what_it_leaves_and_holds_what_it_takes(admin: Client, path: str) -> None:
    a, b, c = (f"{name}.example.com:443" for name in "abc")
    edge = admin.create(path, {"hostports": [a, b]})
    assert admin.patch(address(path, edge), {"hostports": [b, c]}).json == {**edge, "hostports": [b, c]}
    assert admin.create(path, {"hostports": [a]})["hostports"] == [a]
    for hostport in (b, c):
        assert_taken(admin.post(path, {"hostports": [hostport]}))
    assert admin.patch(address(path, edge), {"hostports": []}).json == {**edge, "hostports": []}
    assert admin.create(path, {"hostports": [b, c]})["hostports"] == [b, c]


@each_form
def test_a_refused_change_leaves_everything_as_it_was(admin: Client, path: str) -> None:
    a, b, c = (f"{name}.example.com:443" for name in "abc")
    edge = admin.create(path, {"hostports": [a], "description": "d"})
    admin.create(path, {"hostports": [b]})
    assert_taken(admin.patch(address(path, edge), {"hostports": [c, b], "description": "new"}), index=1)
    assert admin.get(address(path, edge)).json == edge
    assert admin.create(path, {"hostports": [c]})["hostports"] == [c]
    assert_taken(admin.post(path, {"hostports": [a]}))


@each_form
def test_a_change_of_something_else_keeps_the_hostports(admin: Client, path: str) -> None:
    edge = admin.create(path, {"hostports": [HOSTPORT]})
    assert admin.patch(address(path, edge), {"metadata": "m"}).json == {**edge, "metadata": "m"}
    assert admin.patch(address(path, edge), {"hostports": [HOSTPORT]}).json == {**edge, "metadata": "m"}
    assert_taken(admin.post(path, {"hostports": [HOSTPORT]}))
