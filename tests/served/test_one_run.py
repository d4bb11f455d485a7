"""One run for one folder: a second one is refused, a killed one leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, free_port, processes_with
from tests.served.test_make_run import environment, make_run, running, settings

RUN = [sys.executable, "-m", "infra.local.run"]


def test_a_folder_in_use_is_neither_served_twice_nor_reset(tmp_path: Path) -> None:
    with running(RUN, settings(tmp_path / "local")) as run:
        sentence = (
            f"{run.local} is in use by process {run.process.pid}, which serves it at {run.base_url}: "
            f"end that first (kill {run.process.pid}), or choose another place with LOCAL_DIR=….\n"
        )
        other_ports = {**run.settings, "PORT": str(free_port()), "CLOUD_PORT": str(free_port())}
        for chosen in (run.settings, other_ports):
            second = subprocess.run(RUN, cwd=ROOT, env=environment(chosen), capture_output=True, text=True, timeout=30)
            assert (second.returncode, second.stdout, second.stderr) == (1, "", sentence)
        resetting = ["make", "-s", "reset"]
        refused = subprocess.run(resetting, cwd=ROOT, env=environment(run.settings), capture_output=True, text=True)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(sentence)
        assert run.client().get("/api_keys").status == 200


def test_what_a_killed_run_leaves_ends_by_itself_and_the_next_start_waits_for_it(tmp_path: Path) -> None:
    chosen = settings(tmp_path / "local")
    with running(RUN, chosen) as run:
        made = run.client().create("/api_keys", {})
        run.process.kill()
        run.process.wait(timeout=30)
    with make_run(chosen) as run:
        assert run.client().get(f"/api_keys/{made['id']}").json == {**made, "token": None}
        run.process.kill()  # make, not what it started
        run.process.wait(timeout=30)
    other_ports = {"PORT": str(free_port()), "CLOUD_PORT": str(free_port())}  # on which only the next one answers
    with make_run(chosen | other_ports) as run:
        assert run.client().get(f"/api_keys/{made['id']}").status == 200
        run.interrupt()
        assert processes_with(f"LOCAL_DIR={run.local}") == []
