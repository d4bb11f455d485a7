"""Every operation of the OpenAPI document is one command, and its sample can be expressed in flags."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from chalicelib.documents import openapi
from infra.build import cli, kinds
from tests.cli.conftest import User
from tests.conftest import Served
from tunnel_edge import app
from tunnel_edge.api import document
from tunnel_edge.api.document import Field, Operation
from tunnel_edge.app import te
from tunnel_edge.errors import CommandError

cli.write_kinds()
DOCUMENT = json.loads(openapi.FILE.read_text())
OPERATIONS = {each.id: each for each in document.load()}


def list_documented() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each operation of the document with its method and path."""
    for path, methods in DOCUMENT["paths"].items():
        yield from (
            (method.upper(), path, operation) for method, operation in methods.items() if method != "parameters"
        )


def test_the_wheel_has_the_reduced_document(te: Any) -> None:
    (packed,) = te.parent.parent.glob("lib/python3*/site-packages/tunnel_edge/api/kinds.json")
    assert json.loads(packed.read_text()) == kinds.reduce(DOCUMENT)


def test_every_operation_is_one_command() -> None:
    words = {}
    for method, path, operation in list_documented():
        its_command = OPERATIONS[operation["operationId"]]
        assert (its_command.method, its_command.path) == (method, path)
        command: click.Command = te
        for word in its_command.words:
            assert isinstance(command, click.Group)
            following = command.get_command(click.Context(command), word)
            assert following is not None
            command = following
        assert not isinstance(command, click.Group)
        words[its_command.words] = command
    assert len(words) == len(OPERATIONS) == len([*list_documented()])


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("list_api_keys", "api-keys list"),
        ("create_http_response_backend", "backends http-response create"),
        ("create_https_edge_route", "edges https routes create"),
        ("replace_https_edge_tls_termination", "edges https tls-termination set"),
        ("delete_https_edge_tls_termination", "edges https tls-termination unset"),
        ("get_ssh_certificate_authority_policy", "ssh-certificate-authorities policy get"),
        ("offboard_user", "users offboard"),
        ("get_me", "me get"),
    ],
)
def test_commands_are_named_by_their_paths(operation: str, words: str) -> None:
    assert " ".join(OPERATIONS[operation].words) == words


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.id)
def test_each_sample_can_be_expressed_in_flags(operation: Operation) -> None:
    body = DOCUMENT["paths"][operation.path][operation.method.lower()].get("requestBody")
    content = body["content"]["application/json"] if body else {}
    samples = [content.get("example"), *(sample["value"] for sample in content.get("examples", {}).values())]
    for sample in filter(None, samples):
        assert document.body_of(operation.fields, flags_of(operation.fields, sample)) == sample


class Sampled(ThreadingHTTPServer):
    """Answers each operation with the sample of the document, and records the request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer: tuple[int, str, bytes] = (204, "", b"")
        self.request: tuple[str, str, Any] | None = None


class Answering(BaseHTTPRequestHandler):
    server: Sampled

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.request = (self.command, self.path, json.loads(body) if body else None)
        status, kind, content = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sampled]:
    with Sampled() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("TE_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("TE_TOKEN", "key")
        monkeypatch.setenv("TE_CONFIG_DIR", str(tmp_path))
        yield server
        server.shutdown()


def test_each_sample_in_flags_is_sent_and_gives_the_samples_answer(
    sampled: Sampled, capsys: pytest.CaptureFixture[str]
) -> None:
    for method, _, documented_operation in list_documented():
        operation = OPERATIONS[documented_operation["operationId"]]
        status, expected = answer_of(documented_operation, operation, sampled)
        for sample in samples_of(documented_operation):
            flags = flags_of(operation.fields, sample or {})
            words = [word for field in operation.fields for word in words_of(field, flags.get(field.path, ()))]
            code = app.run([*operation.words, *(f"{name}_1" for name in operation.names), *words, "-o", "json"])
            captured = capsys.readouterr()
            assert (code, status // 100) == (0, 2), (operation.id, captured.err)
            path = operation.path.format_map({name: f"{name}_1" for name in operation.names})
            body = (sample or {}) if operation.fields else None
            assert sampled.request == (method, path, body), operation.id
            output = json.loads(captured.out) if captured.out.startswith(("{", "[")) else captured.out
            assert output == expected, operation.id


def samples_of(documented_operation: dict[str, Any]) -> list[Any]:
    """Return the bodies of an operation in the document, None for one without a body."""
    content = documented_operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    bodies = [content.get("example"), *(example["value"] for example in content.get("examples", {}).values())]
    return [*filter(None, bodies)] or [None]


def answer_of(documented_operation: dict[str, Any], operation: Operation, sampled: Sampled) -> tuple[int, Any]:
    """Let the server answer with the sample of an operation. Return its status, and what the command shows."""
    status, response = next(
        (int(status_text), each) for status_text, each in documented_operation["responses"].items() if status_text < "3"
    )
    contents: dict[str, Any] = response.get("content", {"": {}})
    kind, content = next(iter(contents.items()))
    example = content.get("example") or next(
        (example["value"] for example in content.get("examples", {}).values()), None
    )
    text = json.dumps(example) if example is not None else "a text" if kind else ""
    sampled.answer = (status, kind, text.encode())
    if example is None:
        return status, f"{text}\n" if text else ""
    return status, example[operation.items] if operation.items else example


def words_of(field: Field, texts: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a flag."""
    for text in texts:
        yield field.flag
        yield f"@{text}" if text.startswith("@") else text


def flags_of(fields: tuple[Field, ...], sample: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the texts of flags for a body. JSON is used only for an empty object, and for a list of objects."""
    flags: dict[str, tuple[str, ...]] = {}
    for field in fields:
        value: Any = sample
        for name in field.path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None and (field.type != "json" or value == {} or isinstance(value, list)):
            flags[field.path] = texts_of(field, value)
    return flags


def texts_of(field: Field, value: Any) -> tuple[str, ...]:
    """Return the texts that a flag has for a value."""
    if field.type == "texts":
        return tuple(value) or ("[]",)
    if field.type.startswith("map"):
        pairs = [
            (key, each) for key, values in value.items() for each in (values if isinstance(values, list) else [values])
        ]
        return tuple(f"{key}={each}" for key, each in pairs) or ("{}",)
    return (json.dumps(value) if field.type == "json" or isinstance(value, bool) else str(value),)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("text", "-1", "-1"),
        ("text", "@@home", "@home"),
        ("text", "", ""),
        ("integer", "3600", 3600),
        ("number", "0.2", 0.2),
        ("boolean", "True", True),
        ("texts", "[]", []),
        ("map:text", "a=b=c", {"a": "b=c"}),
        ("map:integer", "a=1", {"a": 1}),
        ("map", "a=1", {"a": "1"}),
        ("json", "{}", {}),
    ],
)
def test_texts_become_values(kind: str, text: str, value: Any) -> None:
    assert document.parse(Field("field", kind), [text]) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("integer", "one", "--a-field: 'one' is not an integer."),
        ("number", "nan", "--a-field: 'nan' is not a number."),
        ("boolean", "yes", "--a-field: 'yes' is not true or false."),
        ("json", "{", "--a-field: '{' is not JSON."),
        ("map:text", "a", "--a-field: 'a' has no '='. Give each entry once, as key=value."),
    ],
)
def test_other_texts_are_wrong_usage_and_name_the_flag(kind: str, text: str, message: str) -> None:
    with pytest.raises(CommandError) as error:
        document.parse(Field("a_field", kind), [text])
    assert (str(error.value), error.value.code) == (message, 2)


def test_a_kind_is_created_listed_changed_and_deleted(admin_user: User) -> None:
    created = admin_user.run(
        *("backends", "http-response", "create", "--status-code", "503", "--headers", "Retry-After=9"),
        *("--body", "@-", "--description", "closed"),
        stdin="Back soon.",
    )
    assert created.returncode == 0, created.stderr
    backend = json.loads(created.stdout)
    assert (backend["headers"], backend["body"]) == ({"Retry-After": "9"}, "Back soon.")
    result_of_list = admin_user.run("backends", "http-response", "list")
    assert json.loads(result_of_list.stdout) == [backend]
    table = admin_user.run("backends", "http-response", "list", "-o", "table", "--utc", "--columns", "id,status_code")
    assert table.stdout.split() == ["ID", "STATUS_CODE", backend["id"], "503"]
    result_of_update = admin_user.run(
        "backends", "http-response", "update", backend["id"], "--description", "open", "-o", "json"
    )
    assert json.loads(result_of_update.stdout)["description"] == "open"
    stale = admin_user.run("backends", "http-response", "delete", backend["id"], "--if-match", '"stale"')
    assert (stale.returncode, json.loads(stale.stderr)["error_code"]) == (6, "precondition_failed")
    deleted = admin_user.run("backends", "http-response", "delete", backend["id"])
    assert (deleted.returncode, deleted.stdout) == (0, "")
    missing = admin_user.run("backends", "http-response", "get", backend["id"], "-o", "table")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert "operation: op_" in missing.stderr


def test_all_pages_of_a_list_are_followed(admin_user: User) -> None:
    for _ in range(3):
        assert admin_user.run("backends", "http-response", "create").returncode == 0
    first_page = admin_user.run("backends", "http-response", "list", "--limit", "2", "-o", "id")
    assert len(first_page.stdout.split()) == 2
    all_pages = admin_user.run("backends", "http-response", "list", "--limit", "2", "--all", "-o", "id")
    assert len({*all_pages.stdout.split()}) == 3
    paged = admin_user.run("api", "GET", "/backends/http_response?limit=2", "--paginate", "-o", "id")
    assert paged.stdout == all_pages.stdout


def test_a_token_is_written_to_one_place(admin_user: User, api: Served) -> None:
    result = admin_user.run("api-keys", "create", "--scopes", "edges:read", "--scopes", "backends:read")
    key = json.loads(result.stdout)
    assert (key["scopes"], bool(key["token"])) == (["edges:read", "backends:read"], True)
    result_with_file = admin_user.run("api-keys", "create", "--token-file", "key", "--scopes", "edges:read")
    token = (admin_user.home / "key").read_text().strip()
    assert (admin_user.home / "key").stat().st_mode & 0o777 == 0o600
    assert "token" not in json.loads(result_with_file.stdout)
    me = admin_user.with_settings(TE_URL=api.base_url, TE_TOKEN=token).run("whoami")
    assert json.loads(me.stdout)["key"]["scopes"] == ["edges:read"]


def test_open_operations_need_no_token(admin_user: User, user: User, api: Served) -> None:
    authority = admin_user.run("ssh-certificate-authorities", "create", "-o", "id").stdout.strip()
    result = user.with_settings(TE_URL=api.base_url, TE_CONFIG_DIR=str(user.home / "empty")).run(
        "ssh-certificate-authorities", "public-key", "get", authority
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("ssh-ed25519 ")
