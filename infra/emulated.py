"""`make cloud` and `make cloud-stop`: the packaged service in an emulated cloud that goes on until it is stopped.

This cloud holds every request against the policies of who makes it, as the real one does.
"""

import os
import signal
import sys
import time
from pathlib import Path

from chalicelib import operations
from chalicelib.storage.aws import AwsError
from infra import cloud, deploy, stacks, terminal
from infra.cloud import ROOT, Cloud, Trouble

NAME, STAGE, BUCKET = "tunnel-edge", "dev", "tunnel-edge-packages"
DEPLOYED = Path(os.environ.get("DEPLOYED_DIR") or ROOT / ".local" / "deployed")
ENV_FILE, CLOUD_ENV_FILE, STARTED = DEPLOYED / "env", DEPLOYED / "cloud.env", DEPLOYED / "started"


def main(action: str) -> None:
    """Start or stop; one sentence and exit status 1 when something stands in the way."""
    os.umask(0o077)
    try:
        {"start": start, "stop": stop}[action]()
    except Trouble as trouble:
        sys.exit(str(trouble))
    except AwsError as error:
        sys.exit(f"The cloud at {os.environ['AWS_ENDPOINT_URL']} cannot be used ({error.code}).")


def start() -> None:
    """Start the cloud, unless the environment names one, deploy the package into it, and make an account there."""
    stop()
    embedded = Cloud(DEPLOYED / "cloud", terminal.port("CLOUD_PORT", 4566), AUTH="true", PERSIST_STATE="0")
    url = cloud.named()
    if url is None:
        embedded.start()
        url = embedded.url
    try:
        _deploy(url)
    except BaseException:
        embedded.stop()
        raise
    if embedded.is_started:
        terminal.write(STARTED, {"PID": str(embedded.pid), "URL": url})


def stop() -> None:
    """End the cloud that an earlier start left going on, if it still is."""
    if not STARTED.exists():
        return
    started = terminal.read(STARTED)
    if cloud.answers(started["URL"]):
        os.kill(int(started["PID"]), signal.SIGTERM)
    while cloud.answers(started["URL"]):
        time.sleep(0.05)
    STARTED.unlink()


def _deploy(url: str) -> None:
    settings = {**cloud.settings(url), "TABLE_NAME": NAME, "KEY_ID": f"alias/{NAME}"}
    os.environ.update(settings)
    package = ROOT / "build" / STAGE
    stacks.make_bucket(BUCKET)
    api = deploy.deploy(package, NAME, BUCKET, {})["RestAPIId"]
    base_url = f"{url}/restapis/{api}/{STAGE}/_user_request_"
    deploy.deploy(package, NAME, BUCKET, {"BaseUrl": base_url})  # which is known only now, and not to the requests
    token = operations.create_account("cloud", "admin")[2]
    terminal.write_exports(CLOUD_ENV_FILE, settings)
    terminal.write(ENV_FILE, {"BASE_URL": base_url, "API_KEY": token})
    print(terminal.welcome(base_url, token, ENV_FILE))


if __name__ == "__main__":
    main(sys.argv[1])
