"""TUNNEL_DOMAIN and TCP_PORTS that differ from those of the table: what needs them is a 503 that says so."""

from collections.abc import Iterator

import pytest

from chalicelib import __main__ as operator
from chalicelib.model.names import base_names
from tests.names_held import end_cooldowns
from tests.transports import Answer, Client

D, OTHER = "tunnels.example", "other.example"
CORRECTION = (
    ": use the values of the table. To change them, stop what uses the table and run "
    "'python -m chalicelib names forget-settings'."
)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TUNNEL_DOMAIN", D)
    monkeypatch.setenv("TCP_PORTS", "20000-20099")
    base_names.forget_settings()
    base_names.check_settings()
    yield
    base_names.forget_settings()


def assert_unavailable(answer: Answer, sentence: str) -> None:
    assert (answer.status, answer.json["error_code"], answer.headers["retry-after"]) == (503, "unavailable", "60")
    assert (
        answer.json["msg"] == f"Nothing was changed: the operator must correct a setting first. {sentence}{CORRECTION}"
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"TUNNEL_DOMAIN": OTHER}, f"The table stores TUNNEL_DOMAIN={D}, but the settings are TUNNEL_DOMAIN={OTHER}"),
        ({"TUNNEL_DOMAIN": ""}, f"The table stores TUNNEL_DOMAIN={D}, but the settings are TUNNEL_DOMAIN=unset"),
        ({"TCP_PORTS": "1-9"}, "The table stores TCP_PORTS=20000-20099, but the settings are TCP_PORTS=1-9"),
        (
            {"TUNNEL_DOMAIN": OTHER, "TCP_PORTS": ""},
            f"The table stores TUNNEL_DOMAIN={D} and TCP_PORTS=20000-20099, "
            f"but the settings are TUNNEL_DOMAIN={OTHER} and TCP_PORTS=unset",
        ),
    ],
)
def test_writes_of_names_say_what_differs_and_all_else_works(
    admin: Client, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], sentence: str
) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"a.{D}:443"]})
    reserved = admin.create("/reserved_domains", {"domain": f"a.{D}"})
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    hosts = {D, settings.get("TUNNEL_DOMAIN") or D}
    for host in hosts:
        assert_unavailable(
            admin.post("/edges/https", {"hostports": ["b.example.com:443", f"x.b.{host}:443"]}), sentence
        )
        assert_unavailable(admin.patch(f"/edges/https/{edge['id']}", {"hostports": [f"b.{host}:443"]}), sentence)
        assert_unavailable(admin.post("/edges/tcp", {"hostports": [f"{host}:20001"]}), sentence)
        assert_unavailable(admin.post("/reserved_domains", {"domain": f"b.{host}"}), sentence)
    assert_unavailable(admin.post("/reserved_addrs", {}), sentence)
    admin.create("/edges/https", {"hostports": ["b.example.com:443"]})
    assert admin.patch(f"/edges/https/{edge['id']}", {"description": "new"}).status == 200
    assert admin.patch(f"/reserved_domains/{reserved['id']}", {"description": "new"}).status == 200
    assert admin.delete(f"/reserved_domains/{reserved['id']}").status == 204
    assert admin.get("/me").json["names"] == {"held": 1, "cooldown": 0, "allowed": 1000}
    assert admin.delete(f"/edges/https/{edge['id']}").status == 204


def test_settings_are_forgotten_once_no_names_exist_or_by_force(
    admin: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edge = admin.create("/edges/https", {"hostports": [f"a.{D}:443", f"b.{D}:443"]})
    message = f"Nothing was changed: 2 names exist, for example a.{D}. "
    with pytest.raises(SystemExit, match=message):
        operator.main(["names", "forget-settings"])
    admin.delete(f"/edges/https/{edge['id']}")
    with pytest.raises(SystemExit, match=message):  # which are in cooldown
        operator.main(["names", "forget-settings"])
    monkeypatch.setenv("TUNNEL_DOMAIN", OTHER)
    assert admin.post("/edges/https", {"hostports": [f"a.{OTHER}:443"]}).status == 503
    end_cooldowns(admin)
    operator.main(["names", "forget-settings"])
    sentence = f"The table no longer stores TUNNEL_DOMAIN={D} and TCP_PORTS=20000-20099. "
    assert (
        capsys.readouterr().out
        == f"{sentence}The next process that uses names stores its own TUNNEL_DOMAIN and TCP_PORTS.\n"
    )
    with pytest.raises(SystemExit, match="This table stores no TUNNEL_DOMAIN"):
        operator.main(["names", "forget-settings"])
    admin.create("/edges/https", {"hostports": [f"a.{OTHER}:443"]})
    operator.main(["names", "forget-settings", "--force"])
    assert capsys.readouterr().out.startswith(f"The table no longer stores TUNNEL_DOMAIN={OTHER} and ")


def test_a_port_below_the_domain_must_be_one_that_is_open(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCP_PORTS", "20000-30000")
    base_names.forget_settings()
    wide = {"hostports": [f"{D}:20000", f"db.{D}:25000", "db.example.com:5432"]}
    edge = f"/edges/tcp/{admin.create('/edges/tcp', wide)['id']}"
    monkeypatch.setenv("TCP_PORTS", "20000-20099")
    base_names.forget_settings()
    rule = f"must have a port of 20000-20099: no other port is open below {D}"

    def assert_refused(answer: Answer, *indexes: int) -> None:
        details = {name: value for name, value in answer.json["details"].items() if name != "operation_id"}
        assert (answer.status, details) == (400, {f"hostports.{index}": rule for index in indexes})

    for host in (D, f"db.{D}", f"*.db.{D}"):
        for port in (19999, 20100, 25000):
            hostports = {"hostports": ["a.example.com:1", f"{host}:{port}", f"a.{D}:20001"]}
            assert_refused(admin.post("/edges/tcp", hostports), 1)
    assert_refused(admin.post("/edges/tcp", {"hostports": [f"{D}:1", f"{D}:20001", f"{D}:2"]}), 0, 2)
    assert admin.patch(edge, {"description": "stays", **wide}).json["hostports"] == wide["hostports"]
    assert_refused(admin.patch(edge, {"hostports": [*wide["hostports"], f"{D}:25001"]}), 3)
    assert admin.patch(edge, {"description": "stays", "hostports": wide["hostports"][1:]}).status == 200
    assert_refused(admin.post("/edges/tcp", {"hostports": [f"x.db.{D}:25000"]}), 0)
    monkeypatch.setenv("TCP_PORTS", "")
    base_names.forget_settings()
    admin.create("/edges/tcp", {"hostports": [f"db.{D}:30001"]})
