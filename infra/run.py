"""`make run`: the embedded cloud, the stacks, a first account, and the API on http://127.0.0.1:8000 until Ctrl-C."""

import os
import re
import shlex
import signal
import sys
import threading
from pathlib import Path

from app import app
from chalicelib import operations
from chalicelib.api import accounts, caller
from chalicelib.api.errors import Refusal
from chalicelib.storage.aws import AwsError
from infra import cloud, local_server
from infra.cloud import HOST, ROOT, Cloud, Trouble

LOCAL = Path(os.environ.get("LOCAL_DIR") or ROOT / ".local")
ENV_FILE = LOCAL / "env"
CLOUD_ENV_FILE = LOCAL / "cloud.env"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Serve until Ctrl-C or the terminal's end; one sentence and exit status 1 when something stands in the way."""
    for ending in ENDINGS:
        if signal.getsignal(ending) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(ending, _end)
    os.umask(0o077)
    embedded = Cloud(LOCAL / "cloud", _port("CLOUD_PORT", 4566))
    try:
        port = _port("PORT", 8000)
        cloud.check_port(port, setting="PORT")
        if not (os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("LOCALSTACK_HOST")):
            embedded.start()
            os.environ.update(cloud.settings(embedded.url))
        _deploy(embedded)
        _serve(port, embedded)
    except Trouble as trouble:
        sys.exit(str(trouble))
    except AwsError as error:
        sys.exit(f"The cloud at {os.environ.get('AWS_ENDPOINT_URL', 'hand')} cannot be used ({error.code}).")
    except OSError as error:
        sys.exit(f"{error.filename or LOCAL} cannot be used ({error.strerror}): choose another place with LOCAL_DIR=….")
    except KeyboardInterrupt:
        print("\nStopped. What was created is kept: 'make run' goes on with it, 'make reset' forgets it.")
    finally:
        embedded.stop()


def _deploy(embedded: Cloud) -> None:
    """Create the table and the key; where they are in the embedded cloud is written down for other programs."""
    name = os.environ.setdefault("TABLE_NAME", "tunnel-edge")
    key = os.environ.setdefault("KEY_ID", f"alias/{name}")
    cloud.deploy(ROOT / "infra" / "data.yaml", f"{name}-data", {"Name": name})
    if embedded.is_started:
        settings = {**cloud.settings(embedded.url), "TABLE_NAME": name, "KEY_ID": key}
        _write(CLOUD_ENV_FILE, {f"export {name}": value for name, value in settings.items()})


def _end(*_: object) -> None:
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)  # a second one would keep the cloud from saving its state
    raise KeyboardInterrupt


def _serve(port: int, embedded: Cloud) -> None:
    base_url, token = f"http://{HOST}:{port}", _key()
    cloud.check_port(port, setting="PORT")  # once more: by now the embedded cloud has its own
    server = local_server.create(app, HOST, port).server
    _write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    print(_welcome(base_url, token), flush=True)
    threading.Thread(target=_watch, args=(embedded, server), daemon=True).start()
    server.serve_forever()
    raise Trouble(f"The embedded cloud ended by itself; its last words are in {embedded.log}.")


def _watch(embedded: Cloud, server: local_server.Server) -> None:
    if embedded.is_started:
        embedded.wait()
        server.shutdown()


def _key() -> str:
    """The key of the last run if it still lets in, else a fresh one for the first account's first admin."""
    if (token := _last_key()) and _lets_in(token):
        return token
    known = operations.list_accounts()
    if not known:
        return operations.create_account("local", "admin")[2]
    admin = next(owner for owner in accounts.owners(known[0].id) if owner.body["admin"])
    return operations.issue_key(known[0].id, admin.id, "make run")[1]


def _last_key() -> str | None:
    if not ENV_FILE.exists():
        return None
    lines = (line.partition("=") for line in ENV_FILE.read_text(errors="replace").splitlines())
    return next((value for name, _, value in lines if name == "API_KEY"), None)


def _lets_in(token: str) -> bool:
    try:
        caller.authenticate({"Authorization": f"Bearer {token}", _version_header(): caller.VERSIONS[0]})
    except Refusal:
        return False
    return True


def _welcome(base_url: str, token: str) -> str:
    return f"""
  Base URL  {base_url}
  API key   {token}

  Both are in {os.path.relpath(ENV_FILE)}; try:

  curl -H 'Authorization: Bearer {token}' -H '{_version_header()}: {caller.VERSIONS[0]}' {base_url}/api_keys
"""


def _version_header() -> str:
    return (os.environ.get("VERSION_HEADERS") or "Service-Version").split(",")[0].strip()


def _port(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not (re.fullmatch("[0-9]{1,5}", text) and 0 < int(text) < 65536):
        raise SystemExit(f"{name}={text} is not a port: choose one from 1 to 65535.")
    return int(text)


def _write(file: Path, lines: dict[str, str]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in lines.items()))


if __name__ == "__main__":
    main()
