"""`make run`: the embedded cloud, the stacks, a first account, and the API on http://127.0.0.1:8000 until Ctrl-C."""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from app import app
from chalicelib import operations
from chalicelib.http import auth
from chalicelib.http.errors import ApiError
from chalicelib.model import accounts, names
from chalicelib.storage.aws import AwsError
from infra import ROOT, CommandError
from infra.deploy import data_stack
from infra.local import cloud, local_server, lock, signals, terminal
from infra.local.cloud import HOST, Cloud

LOCAL = Path(os.environ.get("LOCAL_DIR") or ROOT / ".local")
ENV_FILE = LOCAL / "env"
CLOUD_ENV_FILE = LOCAL / "cloud.env"
_EDGE_HINT = "\n  'make edge' beside it gives what runs here public addresses: docs/edge.md\n"
_LITTLE = 256 * 1024  # bytes: what a fresh state needs, and some
PARENT = int(os.environ.get("END_WITH") or 0)  # the process whose end is this one's; `make` names itself


def main() -> None:
    """Serve until Ctrl-C or the terminal's end; one sentence and exit status 1 when something stands in the way."""
    signals.interrupt()
    terminal.outlive_output()
    os.umask(0o077)
    cloud.forget_own()
    embedded = Cloud(LOCAL / "cloud", terminal.port("CLOUD_PORT", 4566))
    try:
        port = terminal.port("PORT", 8000)
        _end_with_parent()
        lock.hold(LOCAL, f"http://{HOST}:{port}", PARENT)
        cloud.check_port(port, setting="PORT")
        if cloud.named() is None:
            embedded.start()
            cloud.speak_to(embedded.settings)
            for sentence in embedded.dropped():
                print(sentence, file=sys.stderr)
        elif not os.environ.get("AWS_ENDPOINT_URL"):
            cloud.speak_to(cloud.settings(str(cloud.named())))  # LocalStack wants no credentials of anybody
        _deploy(embedded)
        _warn_of_settings()
        _serve(port, embedded)
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(_why(error, embedded))
    except OSError as error:
        sys.exit(f"{error.filename or LOCAL} cannot be used ({error.strerror}): choose another place with LOCAL_DIR=….")
    except KeyboardInterrupt:
        terminal.say("\nStopped. What was created is kept: 'make run' goes on with it, 'make reset' forgets it.")
    finally:
        embedded.stop()


def _why(error: AwsError, embedded: Cloud) -> str:
    """Return why the cloud cannot be used, in a sentence."""
    if embedded.is_started and shutil.disk_usage(LOCAL).free < _LITTLE:
        return f"No space is left in {LOCAL}: make some, or choose another place with LOCAL_DIR=…."
    return f"The cloud at {os.environ.get('AWS_ENDPOINT_URL', 'hand')} cannot be used ({error.code})."


def _end_with_parent() -> None:
    """Stop when the parent is killed: who started this would think that it has ended, too."""

    def watch() -> None:
        while os.getppid() == PARENT:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    if PARENT:
        threading.Thread(target=watch, daemon=True).start()


def _deploy(embedded: Cloud) -> None:
    """Create the table and the key; where they are in the embedded cloud is written down for other programs."""
    name = os.environ.setdefault("TABLE_NAME", "tunnel-edge")
    key = os.environ.setdefault("KEY_ID", f"alias/{name}")
    os.environ.setdefault("TUNNEL_DOMAIN", "tunnels.localhost")  # as the live edge has it by default
    os.environ.setdefault("TCP_PORTS", "20000-20099")
    data_stack.deploy(name, {})
    if embedded.is_started:
        settings = {name: os.environ.get(name, "") for name in ("TUNNEL_DOMAIN", "TCP_PORTS")}
        used = {"TABLE_NAME": name, "KEY_ID": key, **settings}
        terminal.write_exports(CLOUD_ENV_FILE, {**embedded.settings, **used})


def _warn_of_settings() -> None:
    """Print how TUNNEL_DOMAIN and TCP_PORTS differ from those of the table. Raises CommandError, AwsError."""
    try:
        if sentence := names.describe_difference():
            print(f"Names cannot be reserved or changed. {sentence}", file=sys.stderr)
    except ValueError as error:
        raise CommandError(f"TUNNEL_DOMAIN or TCP_PORTS cannot be used: {error}.") from None


def _serve(port: int, embedded: Cloud) -> None:
    base_url, token = f"http://{HOST}:{port}", _key()
    cloud.check_port(port, setting="PORT")  # once more: by now the embedded cloud has its own
    server = local_server.create(app, HOST, port).server
    terminal.write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    terminal.say(terminal.welcome(base_url, token, ENV_FILE) + _EDGE_HINT)
    threading.Thread(target=_watch, args=(embedded, server), daemon=True).start()
    server.serve_forever()
    raise CommandError(f"The embedded cloud ended by itself; its last words are in {embedded.log}.")


def _watch(embedded: Cloud, server: local_server.Server) -> None:
    if embedded.is_started:
        embedded.wait()
        server.shutdown()


def _key() -> str:
    """Return the key of the last run if it is still valid, else a fresh one for the first account's first admin."""
    if (token := terminal.read(ENV_FILE).get("API_KEY")) and _lets_in(token):
        return token
    known = operations.list_accounts()
    if not known:
        return operations.create_account("local", "admin")[2]
    admin = next(owner for owner in accounts.list_owners(known[0].id) if owner.body["admin"])
    return operations.issue_key(known[0].id, admin.id, "make run")[1]


def _lets_in(token: str) -> bool:
    try:
        auth.authenticate({"Authorization": f"Bearer {token}", auth.version_headers()[0]: auth.VERSIONS[0]})
    except ApiError:
        return False
    return True


if __name__ == "__main__":
    main()
