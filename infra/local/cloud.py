"""The embedded cloud: MiniStack, an emulator of AWS, in a separate process and virtual environment.

It stores each change before it answers. Its files contain key material, so only the user who started it can read them.
"""

import base64
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from infra import ROOT, CommandError
from infra.local import files, signals
from infra.local.embedded import UNUSABLE

PYTHON = ROOT / ".venv-cloud" / "bin" / "python"
COMMAND = (str(PYTHON), "-m", "infra.local.embedded")
HOST = "127.0.0.1"
OWN = "EMBEDDED_CLOUD_URL"
_REGION_AND_CA = ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_CA_BUNDLE")
_NO_FILES = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def check_port(port: int, *, setting: str) -> None:
    """Raise CommandError if the port is in use. `setting` is the environment variable that sets the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            message = f"Port {port} cannot be used ({error.strerror}): choose another with {setting}=…."
            raise CommandError(message) from None


class Cloud:
    """A MiniStack process that this process starts."""

    def __init__(self, state: Path, port: int, **settings: str) -> None:
        """Prepare a cloud. `settings` override MiniStack's environment variables."""
        self.url = f"http://{HOST}:{port}"
        self._state = state
        self._port = port
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Return environment variables for clients of this cloud.

        By the variable OWN, programs recognize that the URL belongs to an embedded cloud.
        """
        return {**settings(self.url), "AWS_ACCESS_KEY_ID": self._key_id(), OWN: self.url}

    @property
    def log(self) -> Path:
        return self._state / "cloud.log"

    @property
    def pid(self) -> int:
        """Return the id of the process, or 0 if it is not started."""
        return self._process.pid if self._process else 0

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start the cloud with its saved state, and wait until it answers. Raises CommandError."""
        check_port(self._port, setting="CLOUD_PORT")
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state.chmod(0o700)  # mkdir does not change the mode of an existing folder
        environment = self._environment()
        with open(self.log, "wb") as log, signals.defer():
            self._process = subprocess.Popen(
                COMMAND,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,  # the cloud ends when this pipe closes, even if this process is killed
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C must reach only this process, which then stops the cloud
            )
        self._await_answer()

    def list_dropped_changes(self) -> list[str]:
        """Return a sentence for each incomplete change that the cloud dropped from its journal when it started."""
        return [line for line in self.log.read_text().splitlines() if line.startswith("The journal ")]

    def wait(self) -> int:
        """Wait for the end of the process; return its exit status."""
        return self._process.wait() if self._process else 0

    def stop(self) -> None:
        """Stop the cloud, which saves its state before it ends."""
        if self._process:
            with signals.defer():
                self._process.terminate()
            self._process.wait()

    def _key_id(self) -> str:
        """Return the access key id that each request to this cloud must have. The id is the same in every run."""
        file = self._state / "key_id"
        try:
            return file.read_text()
        except FileNotFoundError:
            key_id = "AKIA" + base64.b32encode(secrets.token_bytes(20)).decode()
            files.write(file, key_id)
            return key_id

    def _has_ended(self) -> bool:
        with signals.defer():
            return self._process is not None and self._process.poll() is not None

    def _environment(self) -> dict[str, str]:
        return {
            **environment_without_clouds(),
            "BIND_HOST": HOST,
            "GATEWAY_PORT": str(self._port),
            "AWS_ACCESS_KEY_ID": self._key_id(),
            "ENDS_WITH_STDIN": "1",
            "PERSIST_STATE": "1",
            "STATE_DIR": str(self._state.absolute()),
            "S3_PERSIST": "0",
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
            "TMPDIR": str(self._state.absolute()),
            **proxy_exemption(),
            **self._settings,
        }

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._has_ended():
                break
            if is_answering(self.url):
                return
            time.sleep(0.05)
        self.stop()
        raise CommandError(self._start_failure())

    def _start_failure(self) -> str:
        """Return one sentence about why the cloud did not start."""
        if self._process and self._process.returncode == UNUSABLE:
            return self.log.read_text().splitlines()[-1]
        return f"The emulated cloud did not start: {self.log} shows why."


def is_answering(url: str) -> bool:
    """Return whether a MiniStack answers at a URL."""
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/_ministack/health", timeout=1):
            return True
    except (URLError, OSError):
        return False


def forget_url() -> None:
    """Remove the URL of an earlier embedded cloud from the environment."""
    if os.environ.get("AWS_ENDPOINT_URL") == os.environ.pop(OWN, None):
        os.environ.pop("AWS_ENDPOINT_URL", None)


def endpoint_url() -> str | None:
    """Return the URL of the emulated cloud that the environment names, or None."""
    if url := os.environ.get("AWS_ENDPOINT_URL"):
        return url
    if not os.environ.get("LOCALSTACK_HOST"):
        return None
    from localstack_client.config import get_service_endpoint  # imported here, because it imports boto3

    return str(get_service_endpoint("sts"))


def settings(url: str) -> dict[str, str]:
    """Return the environment for boto3 to use an emulated cloud."""
    return {
        **proxy_exemption(),
        **_NO_FILES,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", "us-east-1"),
    }


def use_cloud(settings: Mapping[str, str]) -> None:
    """Make this process and its children use only an emulated cloud."""
    environment = {**environment_without_clouds(), **settings}
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def environment_without_clouds() -> dict[str, str]:
    """Return the environment without other clouds' profiles, credentials, endpoints and files."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name in _REGION_AND_CA}
    return {**ours, **_NO_FILES}


def proxy_exemption() -> dict[str, str]:
    """Return variables that exempt this machine from proxies."""
    hosts = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or HOST
    past = ",".join(dict.fromkeys([*hosts.split(","), HOST, "localhost"]))
    return {"no_proxy": past, "NO_PROXY": past}
