"""The cloud on this machine: MiniStack, guarded, in a virtual environment of its own.

It keeps each change before it answers, in files that hold key material: for the owner's eyes only.
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

from localstack_client.config import get_service_endpoint

from infra import ROOT, CommandError
from infra.local import files, signals
from infra.local.embedded import UNUSABLE

PYTHON = ROOT / ".venv-cloud" / "bin" / "python"
COMMAND = (str(PYTHON), "-m", "infra.local.embedded")
HOST = "127.0.0.1"
OWN = "EMBEDDED_CLOUD_URL"
_OF_ANY_CLOUD = ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_CA_BUNDLE")
_NO_FILES = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def check_port(port: int, *, setting: str) -> None:
    """Raise CommandError when something listens on the port; `setting` names the variable that chooses another."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            told = f"Port {port} cannot be used ({error.strerror}): choose another with {setting}=…."
            raise CommandError(told) from None


class Cloud:
    """A MiniStack process that this one started."""

    def __init__(self, state: Path, port: int, **settings: str) -> None:
        """Prepare a cloud; `settings` override those that MiniStack is started with."""
        self.url = f"http://{HOST}:{port}"
        self._state = state
        self._port = port
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Return the environment for its clients, marked as that of a cloud of our own."""
        return {**settings(self.url), "AWS_ACCESS_KEY_ID": self._key_id(), OWN: self.url}

    @property
    def log(self) -> Path:
        return self._state / "cloud.log"

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start it with the state that was saved, and wait until it answers. Raises CommandError."""
        check_port(self._port, setting="CLOUD_PORT")
        self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state.chmod(0o700)  # also if it was there already
        environment = self._environment()
        with open(self.log, "wb") as log, signals.defer():
            self._process = subprocess.Popen(
                COMMAND,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,  # which closes with this process: the cloud then ends too
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us: the cloud stops after the server
            )
        self._await_answer()

    def dropped(self) -> list[str]:
        """Return a sentence for each change that a power cut left incomplete, and that was dropped at the start."""
        return [line for line in self.log.read_text().splitlines() if line.startswith("The journal ")]

    def wait(self) -> int:
        """Wait until the process ends; return its exit status."""
        return self._process.wait() if self._process else 0

    def stop(self) -> None:
        """Let it save its state and end."""
        if self._process:
            with signals.defer():
                self._process.terminate()
            self._process.wait()

    def _key_id(self) -> str:
        """Return the access key id that this folder's cloud lets in, the same in every run."""
        file = self._state / "key_id"
        try:
            return file.read_text()
        except FileNotFoundError:
            made = "AKIA" + base64.b32encode(secrets.token_bytes(20)).decode()
            files.write(file, made)
            return made

    def _has_ended(self) -> bool:
        with signals.defer():
            return self._process is not None and self._process.poll() is not None

    def _environment(self) -> dict[str, str]:
        return {
            **past_other_clouds(),
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
            **past_proxies(),
            **self._settings,
        }

    def _await_answer(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._has_ended():
                break
            if answers(self.url):
                return
            time.sleep(0.05)
        self.stop()
        raise CommandError(self._last_words())

    def _last_words(self) -> str:
        """Return why it did not start, in one sentence."""
        if self._process and self._process.returncode == UNUSABLE:
            return self.log.read_text().splitlines()[-1]
        return f"The embedded cloud did not start; its last words are in {self.log}."


def answers(url: str) -> bool:
    """Tell whether a MiniStack answers at a URL."""
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/_ministack/health", timeout=1):
            return True
    except (URLError, OSError):
        return False


def forget_own() -> None:
    """Remove the settings of one of our own clouds from the environment, if the shell has read them."""
    if os.environ.get("AWS_ENDPOINT_URL") == os.environ.pop(OWN, None):
        os.environ.pop("AWS_ENDPOINT_URL", None)


def named() -> str | None:
    """Return the URL of the emulated cloud that the environment names, if any."""
    if url := os.environ.get("AWS_ENDPOINT_URL"):
        return url
    return str(get_service_endpoint("sts")) if os.environ.get("LOCALSTACK_HOST") else None


def settings(url: str) -> dict[str, str]:
    """Return the environment with which boto3 uses an emulated cloud."""
    return {
        **past_proxies(),
        **_NO_FILES,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", "us-east-1"),
    }


def speak_to(settings: Mapping[str, str]) -> None:
    """Make this process, and all that it starts, use an emulated cloud and no other."""
    environment = {**past_other_clouds(), **settings}
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def past_other_clouds() -> dict[str, str]:
    """Return the environment without what may name another cloud: profiles, credentials, endpoints, files."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_") or name in _OF_ANY_CLOUD}
    return {**ours, **_NO_FILES}


def past_proxies() -> dict[str, str]:
    """Return the environment with this machine exempt from its proxies."""
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or HOST
    past = ",".join(dict.fromkeys([*others.split(","), HOST, "localhost"]))
    return {"no_proxy": past, "NO_PROXY": past}
