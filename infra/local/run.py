"""`make run`: serve the API and its embedded cloud until Ctrl-C."""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from app import app
from chalicelib.http import auth
from chalicelib.http.errors import ApiError
from chalicelib.model.accounts import accounts
from chalicelib.model.names import base_names
from chalicelib.operator import keys
from chalicelib.operator.accounts import create_account, list_accounts
from chalicelib.storage.client import aws
from chalicelib.storage.client.aws import AwsError
from infra import ROOT, CommandError
from infra.deploy import data_stack, service
from infra.local import cloud, local_server, lock, signals, terminal
from infra.local.cloud import HOST, Cloud

LOCAL = Path(os.environ.get("LOCAL_DIR") or ROOT / ".local")
ENV_FILE = LOCAL / "env"
CLOUD_ENV_FILE = LOCAL / "cloud.env"
_EDGE_HINT = "\n  'make edge' gives servers on this machine public addresses: docs/edge.md\n"
# a disk with fewer free bytes counts as full
_MIN_FREE = 256 * 1024
# the id of the process of `make`, or 0. This process ends when that process ends.
PARENT = int(os.environ.get("END_WITH") or 0)


def main() -> None:
    """Serve until Ctrl-C or the terminal's end. A failure exits with one sentence and status 1."""
    signals.interrupt()
    terminal.outlive_output()
    os.umask(0o077)
    cloud.forget_url()
    embedded = Cloud(LOCAL / "cloud", terminal.port("CLOUD_PORT", 4566))
    try:
        port = terminal.port("PORT", 8000)
        _end_with_parent()
        lock.hold_folder(LOCAL, f"http://{HOST}:{port}", PARENT)
        cloud.check_port(port, setting="PORT")
        if cloud.endpoint_url() is None:
            embedded.start()
            cloud.use_cloud(embedded.settings)
            for sentence in embedded.list_dropped_changes():
                print(sentence, file=sys.stderr)
        elif not os.environ.get("AWS_ENDPOINT_URL"):
            # the cloud that LOCALSTACK_HOST names accepts any credentials
            cloud.use_cloud(cloud.settings(str(cloud.endpoint_url())))
        _deploy(embedded)
        _warn_of_settings()
        _serve(port, embedded)
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(_explain(error, embedded))
    except OSError as error:
        sys.exit(
            f"{error.filename or LOCAL} cannot be used ({error.strerror}): choose another folder with LOCAL_DIR=…."
        )
    except KeyboardInterrupt:
        terminal.say("\nStopped. All data is stored: 'make run' continues with it, 'make reset' deletes it.")
    finally:
        embedded.stop()


def _explain(error: AwsError, embedded: Cloud) -> str:
    """Return one sentence about why the cloud cannot be used. A possible reason is a full disk."""
    if embedded.is_started and shutil.disk_usage(LOCAL).free < _MIN_FREE:
        return f"No space is left in {LOCAL}: free some space, or choose another folder with LOCAL_DIR=…."
    url = os.environ.get("AWS_ENDPOINT_URL", "hand")
    return f"The emulated cloud at {url} cannot be used ({error.code}): check that it runs, and check the credentials."


def _end_with_parent() -> None:
    """Stop this process when its parent is killed, so that the API does not continue unnoticed."""

    def watch() -> None:
        while os.getppid() == PARENT:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)

    if PARENT:
        threading.Thread(target=watch, daemon=True).start()


def _deploy(embedded: Cloud) -> None:
    """Create the table and the KMS key, and write their names for other programs.

    Raises AwsError, and CommandError if version 1.x wrote the table.
    """
    name = os.environ.setdefault("TABLE_NAME", "tunnel-edge")
    key = os.environ.setdefault("KEY_ID", f"alias/{name}")
    os.environ.setdefault("TUNNEL_DOMAIN", "tunnels.localhost")  # the edge has the same default
    os.environ.setdefault("TCP_PORTS", "20000-20099")
    service.require_supported_table(name)
    data_stack.deploy(name, {})
    if embedded.is_started:
        settings = {name: os.environ.get(name, "") for name in ("TUNNEL_DOMAIN", "TCP_PORTS")}
        used = {"TABLE_NAME": name, "KEY_ID": key, **settings}
        terminal.write_exports(CLOUD_ENV_FILE, {**embedded.settings, **used})


def _warn_of_settings() -> None:
    """Print how TUNNEL_DOMAIN and TCP_PORTS differ from the values in the table.

    Raises CommandError, AwsError.
    """
    try:
        if sentence := base_names.describe_difference():
            print(f"Names cannot be reserved or changed. {sentence}", file=sys.stderr)
    except ValueError as error:
        raise CommandError(f"TUNNEL_DOMAIN or TCP_PORTS cannot be used: {error}.") from None


def _serve(port: int, embedded: Cloud) -> None:
    base_url, token = f"http://{HOST}:{port}", _key()
    cloud.check_port(port, setting="PORT")  # check again, because the embedded cloud may listen on this port
    aws.call_directly("dynamodb")  # without botocore, like the Lambda functions
    server = local_server.create(app, HOST, port).server
    terminal.write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    terminal.say(terminal.welcome(base_url, token, ENV_FILE) + _EDGE_HINT)
    threading.Thread(target=_watch, args=(embedded, server), daemon=True).start()
    server.serve_forever()
    raise CommandError(f"The emulated cloud ended unexpectedly: {embedded.log} shows why.")


def _watch(embedded: Cloud, server: local_server.Server) -> None:
    if embedded.is_started:
        embedded.wait()
        server.shutdown()


def _key() -> str:
    """Return the API key of the previous run. If it is not valid any more, return a new key of the first admin."""
    if (token := terminal.read(ENV_FILE).get("API_KEY")) and _is_valid(token):
        return token
    all_accounts = list_accounts()
    if not all_accounts:
        return create_account("local", "admin")[2]
    admin = next(owner for owner in accounts.list_owners(all_accounts[0].id) if owner.body["admin"])
    return keys.issue_key(all_accounts[0].id, admin.id, "make run")[1]


def _is_valid(token: str) -> bool:
    try:
        auth.authenticate({"Authorization": f"Bearer {token}", auth.version_headers()[0]: auth.VERSIONS[0]})
    except ApiError:
        return False
    return True


if __name__ == "__main__":
    main()
