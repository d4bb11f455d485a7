"""`make cloud` and `make cloud-stop`: the packaged service in an emulated cloud that goes on until it is stopped.

This cloud holds every request against the policies of who makes it, as the real one does. Each start begins anew.
"""

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from chalicelib.operator import accounts
from chalicelib.storage.aws import AwsError
from infra import ROOT, CommandError
from infra.deploy import service, stacks
from infra.local import cloud, files, lock, signals, terminal
from infra.local.cloud import Cloud
from infra.local.embedded import PROCESS

NAME, STAGE, BUCKET = "tunnel-edge", "dev", "tunnel-edge-packages"
DEPLOYED = Path(os.environ.get("DEPLOYED_DIR") or ROOT / ".local" / "deployed")
ENV_FILE, CLOUD_ENV_FILE, STARTED = DEPLOYED / "env", DEPLOYED / "cloud.env", DEPLOYED / "started"
STATE = DEPLOYED / "cloud"
MARK = {"EMULATED_CLOUD": "yes"}  # what that file holds: proof that what is beside it is our own
PLACES = (STATE, ENV_FILE, CLOUD_ENV_FILE, STARTED)
PORT = 4567  # where no make run has its own
SETTINGS = {"AUTH": "true", "PERSIST_STATE": "0", "ENDS_WITH_STDIN": ""}  # it goes on after its start
PARAMETERS = {
    "VERSION_HEADERS": "VersionHeaders",
    "STRICT_REFERENCES": "StrictReferences",
    "AUDIT_DAYS": "AuditDays",
    "RECORDS_EDITION": "RecordsEdition",
    "TUNNEL_DOMAIN": "TunnelDomain",
    "TCP_PORTS": "TcpPorts",
    "LOG_LEVEL": "LogLevel",
}


def main(action: str) -> None:
    """Check, start or stop the cloud, or exit with status 1 and one sentence."""
    os.umask(0o077)
    signals.interrupt()
    cloud.forget_own()
    try:
        {"check": check, "start": start, "stop": stop}[action]()
    except CommandError as error:
        sys.exit(str(error))
    except AwsError as error:
        sys.exit(f"The cloud at {os.environ['AWS_ENDPOINT_URL']} cannot be used ({error.code}).")
    except OSError as error:
        sys.exit(f"{error.filename} cannot be used ({error.strerror}): choose another place with DEPLOYED_DIR=….")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted: the cloud is stopped.")


def check() -> None:
    """Check what can be known before the package is made: that the port is free, once an earlier cloud has ended."""
    _make_room()
    port = terminal.port("CLOUD_PORT", PORT)
    if cloud.named() is None:
        cloud.check_port(port, setting="CLOUD_PORT")


def start() -> None:
    """Start the cloud, unless the environment names one, deploy the package into it, and make an account there."""
    _make_room()
    named = cloud.named()
    embedded = Cloud(STATE, terminal.port("CLOUD_PORT", PORT), **SETTINGS)
    try:
        files.make_folder(DEPLOYED, [place.name for place in PLACES])
        terminal.write(STARTED, MARK)  # before anything else: what is beside it from now on is our own
        if named is None:
            terminal.say("Starting the emulated cloud …")
            embedded.start()
        _deploy(cloud.settings(named) if named else embedded.settings)
    except KeyboardInterrupt:
        embedded.stop()
        _forget()
        raise
    except Exception:
        embedded.stop()  # its last words are kept until the next start
        raise


def stop() -> None:
    """End the cloud that an earlier start left going on, if it still is, and forget what it held."""
    if _is_marked():
        if lock.is_taken(STATE):
            with suppress(OSError, ValueError):  # it has ended since, or is no cloud of a start: then it is waited for
                os.kill(int((STATE / PROCESS).read_text()), signal.SIGTERM)
            lock.await_cloud(STATE)
        _forget()


def _is_marked() -> bool:
    try:
        return terminal.read(STARTED) == MARK
    except (OSError, ValueError):
        return False


def _make_room() -> None:
    """End what an earlier start left. Raises CommandError when there is anything else where a start writes."""
    stop()
    for place in PLACES:
        if os.path.lexists(place):
            raise CommandError(f"{place} is not of an emulated cloud: choose another place with DEPLOYED_DIR=….")


def _forget() -> None:
    shutil.rmtree(STATE, ignore_errors=True)
    for file in (ENV_FILE, CLOUD_ENV_FILE, STARTED):  # the proof that they are our own goes last
        file.unlink(missing_ok=True)


def _deploy(cloud_settings: Mapping[str, str]) -> None:
    settings = {**cloud_settings, "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
    cloud.speak_to(settings)
    package = ROOT / "build" / STAGE
    terminal.say("Deploying the table, the key and the API …")
    stacks.make_bucket(BUCKET)
    chosen = {parameter: os.environ[name] for name, parameter in PARAMETERS.items() if os.environ.get(name)}
    api = service.deploy(package, NAME, BUCKET, chosen)["RestAPIId"]
    terminal.say("Deploying the API once more, with its address …")
    base_url = f"{settings['AWS_ENDPOINT_URL']}/restapis/{api}/{STAGE}/_user_request_"
    service.deploy(package, NAME, BUCKET, {"BaseUrl": base_url})  # which is known only now, and not to the requests
    terminal.say("Creating an account …")
    token = accounts.create_account("cloud", "admin")[2]
    terminal.write_exports(CLOUD_ENV_FILE, settings)
    terminal.write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    terminal.say(terminal.welcome(base_url, token, ENV_FILE))


if __name__ == "__main__":
    main(sys.argv[1])
