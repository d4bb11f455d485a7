"""`make run` in surroundings that are not as it would have them, until a signal ends it."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, await_answer, processes_with, serve
from tests.needs import need
from tests.served.commands import STOPPED, environment, settings
from tests.transports import Client, Http


def test_it_goes_on_in_a_folder_with_other_files_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    need("the embedded cloud")
    local = tmp_path / "local"
    local.mkdir()
    local.chmod(0o755)
    (local / "notes").touch()
    chosen = settings(local)
    base_url, log = f"http://127.0.0.1:{chosen['PORT']}", tmp_path / "errors"
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "infra.local.run"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(chosen), stdout=writing, stderr=errors)
    os.close(writing)
    await_answer(base_url, process, log)
    assert [Client(Http(base_url)).get("/api_keys").status for _ in range(3)] == [401] * 3
    assert local.stat().st_mode == stat.S_IFDIR | 0o755
    assert {(local / name).stat().st_mode & 0o777 for name in ("cloud", "env", "cloud.env")} == {0o700, 0o600}
    process.send_signal(signal.SIGHUP)
    assert (process.wait(timeout=30), log.read_text()) == (0, "")
    assert processes_with(f"LOCAL_DIR={chosen['LOCAL_DIR']}") == []


def test_what_it_writes_down_is_its_owners_whatever_was_there(tmp_path: Path) -> None:
    (tmp_path / "local" / "cloud").mkdir(parents=True)
    for folder in (tmp_path / "local", tmp_path / "local" / "cloud"):
        folder.chmod(0o755)
    (tmp_path / "elsewhere").write_bytes(b"API_KEY=\xff\n")  # no key that could be printed again
    (tmp_path / "local" / "env").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "local" / "cloud.env").touch(mode=0o644)
    process, api = serve(tmp_path / "local")
    for name in ("env", "cloud.env"):
        assert (api.local / name).lstat().st_mode == stat.S_IFREG | 0o600
    for folder in (api.local, api.local / "cloud"):
        assert folder.stat().st_mode == stat.S_IFDIR | 0o700
    assert (tmp_path / "elsewhere").read_bytes() == b"API_KEY=\xff\n"
    assert len(processes_with(f"LOCAL_DIR={api.local}")) == 2
    process.terminate()
    assert process.wait(timeout=30) == 0
    assert api.log.read_text().endswith(f"\n{STOPPED}\n")
    assert processes_with(f"LOCAL_DIR={api.local}") == []
