"""Events as they happen, offboarding, requests by path, and output."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cli.conftest import User
from tests.conftest import Served, least


def test_events_are_followed_and_each_is_printed_once(admin_user: User, api: Served) -> None:
    command = [str(admin_user.te), "events", "--follow", "--action", "http_*"]
    admin_user.run("backends", "http-response", "create", "--description", "before")
    process = subprocess.Popen(command, env=admin_user.environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    first = json.loads(process.stdout.readline())
    created = [api.client().create("/backends/http_response", {})["id"] for _ in range(3)]
    api.client().create("/ssh_certificate_authorities", {})
    ids = [json.loads(process.stdout.readline())["resource_id"] for _ in created]
    assert (sorted(ids), first["action"]) == (sorted(created), "http_response_backend.create")
    process.terminate()
    process.wait(timeout=10)


def test_offboarding_closes_a_bot_at_once(admin_user: User, api: Served) -> None:
    admin = api.client()
    bot = admin.create("/bot_users", {"name": "leaving"})["id"]
    admin.create("/api_keys", {"owner_id": bot})
    process = subprocess.Popen(
        [str(admin_user.te), "offboard", bot],
        env=admin_user.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    assert process.stderr.readline().startswith("The request is not complete yet. It is repeated in 1")
    process.terminate()
    process.communicate(timeout=10)
    assert admin.get(f"/bot_users/{bot}").json["active"] is False
    assert admin_user.run("offboard", "edghts_1").returncode == 2


def test_offboarding_is_repeated_until_it_is_complete(user: User) -> None:
    kept_fields = {"kept": [{"id": "shcrt_1", "owner_id": "usr_1"}], "kept_more": 0}
    counters = {"keys": 2, "ssh_credentials": 0, "certificates": 1, "federated_credentials": 0}
    answers = [
        {"complete": False, "retry_after": 0, **counters, **kept_fields},
        {"complete": True, **counters, **kept_fields},
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            content = json.dumps(answers.pop(0)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        caller = user.with_settings(TE_URL=f"http://127.0.0.1:{server.server_port}", TE_TOKEN="key")
        result = caller.run("offboard", "usr_1", "--others", "keep")
        server.shutdown()
    assert json.loads(result.stdout) == {
        "complete": True, "keys": 4, "ssh_credentials": 0, "certificates": 2, "federated_credentials": 0, **kept_fields,
    }  # fmt: skip


def test_any_path_can_be_requested(admin_user: User) -> None:
    process_of_create = admin_user.run(
        "api", "POST", "/backends/http_response", "--input", "-", stdin='{"status_code": 404}'
    )
    assert json.loads(process_of_create.stdout)["status_code"] == 404
    unknown = admin_user.run("api", "GET", "/nowhere", "-o", "json")
    assert (unknown.returncode, json.loads(unknown.stderr)["error_code"]) == (3, "no_such_route")
    assert admin_user.run("api", "GET", "nowhere").returncode == 2


def test_tables_have_no_colours_and_no_control_characters(admin_user: User) -> None:
    admin_user.run("backends", "http-response", "create", "--json", "-", stdin='{"description": "a\\u001b[31mb"}')
    result = admin_user.run("backends", "http-response", "list", "-o", "table")
    assert "\x1b" not in result.stdout
    assert "a�[31mb" in result.stdout


def test_the_list_of_commands_is_shown_at_once(user: User) -> None:
    def ratio() -> float:
        return user.seconds(str(user.te), "--help") / user.seconds(str(user.te.parent / "python"), "-c", "pass")

    assert least(ratio, bound=2.5) <= 2.5
