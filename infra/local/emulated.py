"""`make cloud` and `make cloud-stop`: the packaged service in an emulated cloud in the background.

This cloud checks every request against the caller's policies, like the real one. Each start begins with an empty cloud.
"""

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from chalicelib.storage.client.aws_errors import AwsError
from infra import ROOT, CommandError
from infra.local import cloud, files, lock, signals, terminal
from infra.local.cloud import Cloud
from infra.local.embedded import PROCESS

NAME, STAGE, BUCKET = "tunnel-edge", "dev", "tunnel-edge-packages"
DEPLOYED = Path(os.environ.get("DEPLOYED_DIR") or ROOT / ".local" / "deployed")
ENV_FILE, CLOUD_ENV_FILE, STARTED = DEPLOYED / "env", DEPLOYED / "cloud.env", DEPLOYED / "started"
STATE = DEPLOYED / "cloud"
# the content of the file STARTED, which proves that this program wrote the files beside it
MARK = {"EMULATED_CLOUD": "yes"}
PATHS = (STATE, ENV_FILE, CLOUD_ENV_FILE, STARTED)
PORT = 4567  # differs from the default port of `make run`: both can run at the same time
# ENDS_WITH_STDIN is empty, because the cloud must not end with the command that starts it
SETTINGS = {"AUTH": "true", "PERSIST_STATE": "0", "ENDS_WITH_STDIN": ""}
PARAMETERS = {
    "VERSION_HEADERS": "VersionHeaders",
    "STRICT_REFERENCES": "StrictReferences",
    "MEMBERS_ACT_FOR_ALL": "MembersActForAll",
    "AUDIT_DAYS": "AuditDays",
    "RECORD_FORMAT": "RecordFormat",
    "TUNNEL_DOMAIN": "TunnelDomain",
    "TCP_PORTS": "TcpPorts",
    "ACME_DIRECTORY": "AcmeDirectory",
    "ACME_DNS_ZONE": "AcmeDnsZone",
    "LOG_LEVEL": "LogLevel",
}


def main(action: str) -> None:
    """Check, start or stop the cloud. A failure exits with one sentence and status 1."""
    os.umask(0o077)
    signals.interrupt()
    cloud.forget_url()
    try:
        {"check": check, "start": start, "stop": stop}[action]()
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(
            f"The emulated cloud at {os.environ['AWS_ENDPOINT_URL']} cannot be used ({error.code}):"
            " check that it runs, and check the credentials."
        )
    except OSError as error:
        sys.exit(f"{error.filename} cannot be used ({error.strerror}): choose another folder with DEPLOYED_DIR=….")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted: the emulated cloud is stopped.")


def check() -> None:
    """Stop the cloud of an earlier start, and check that the port is free. Raises CommandError.

    The Makefile calls this function before it makes the package, because making the package takes long.
    """
    _make_room()
    port = terminal.port("CLOUD_PORT", PORT)
    if cloud.endpoint_url() is None:
        cloud.check_port(port, setting="CLOUD_PORT")


def start() -> None:
    """Start the cloud, deploy the package, and create an account.

    If the environment names another cloud, use that cloud instead of starting one.
    """
    _make_room()
    named = cloud.endpoint_url()
    embedded = Cloud(STATE, terminal.port("CLOUD_PORT", PORT), **SETTINGS)
    try:
        files.make_folder(DEPLOYED, [path.name for path in PATHS])
        terminal.write(STARTED, MARK)  # must exist before all other files: only then can `_forget` remove them
        if named is None:
            terminal.say("Starting the emulated cloud …")
            embedded.start()
        _deploy(cloud.settings(named) if named else embedded.settings)
    except KeyboardInterrupt:
        embedded.stop()
        _forget()
        raise
    except Exception:
        embedded.stop()  # without `_forget`, so that the cloud's log remains
        raise


def stop() -> None:
    """Stop the cloud of an earlier start, and remove its state."""
    if _is_marked():
        if lock.is_locked(STATE):
            with suppress(OSError, ValueError):  # the process has ended, or wrote no process id
                os.kill(int((STATE / PROCESS).read_text()), signal.SIGTERM)
            lock.await_cloud(STATE)
        _forget()


def _is_marked() -> bool:
    try:
        return terminal.read(STARTED) == MARK
    except (OSError, ValueError):
        return False


def _make_room() -> None:
    """Stop an earlier cloud and remove its files. Raises CommandError if the folder has files of other programs."""
    stop()
    for path in PATHS:
        if os.path.lexists(path):
            raise CommandError(
                f"{path} does not belong to an emulated cloud: choose another folder with DEPLOYED_DIR=…."
            )


def _forget() -> None:
    shutil.rmtree(STATE, ignore_errors=True)
    # STARTED is removed last: it proves that the other files belong to this program and can be removed
    for file in (ENV_FILE, CLOUD_ENV_FILE, STARTED):
        file.unlink(missing_ok=True)


def _deploy(cloud_settings: Mapping[str, str]) -> None:
    # imported here, because this takes a second, which `check` and `stop` do not need
    from chalicelib.operator import accounts
    from infra.deploy import service, stacks

    settings = {**cloud_settings, "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
    cloud.use_cloud(settings)
    package = ROOT / "build" / STAGE
    terminal.say("Deploying the table, the key and the API …")
    stacks.make_bucket(BUCKET)
    chosen = {"AlarmTopicArn": "none"} | {
        parameter: os.environ[name] for name, parameter in PARAMETERS.items() if os.environ.get(name)
    }
    api = service.deploy(package, NAME, BUCKET, chosen)["RestAPIId"]
    terminal.say("Deploying the API once more, with its address …")
    base_url = f"{settings['AWS_ENDPOINT_URL']}/restapis/{api}/{STAGE}/_user_request_"
    # The API must know its own URL, which requests to the emulator do not contain. Only the first deployment shows it.
    service.deploy(package, NAME, BUCKET, {"BaseUrl": base_url})
    terminal.say("Creating an account …")
    token = accounts.create_account("cloud", "admin")[2]
    terminal.write_exports(CLOUD_ENV_FILE, settings)
    terminal.write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    terminal.say(terminal.welcome(base_url, token, ENV_FILE))


if __name__ == "__main__":
    main(sys.argv[1])
