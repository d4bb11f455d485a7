"""The process that Terraform starts."""

import base64
import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from infra.build.terraform import wheel
from tests.conftest import ROOT


@pytest.mark.needs("the environment of the Terraform provider")
def test_it_says_where_it_listens_and_ignores_an_interruption(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its socket is this user's alone, its key is in no file, and Ctrl-C does not end the changes that run."""
    tmp_path = tmp_path_factory.mktemp("t")  # the path of a Unix socket has at most 107 bytes
    wheel.build_wheel(tmp_path / "wheel")
    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "terraform")}
    process = subprocess.Popen(
        [ROOT / ".venv-terraform" / "bin" / "python", "-m", "tunneledge_provider"],
        env={
            **environment,
            "TF_PLUGIN_MAGIC_COOKIE": "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = re.fullmatch(r"1\|6\|unix\|(/.*/provider\.sock)\|grpc\|([\w+/]+)\n", process.stdout.readline())
        assert line
        status = Path(f"/proc/{process.pid}/status").read_text()
        ignored = re.search(r"^SigIgn:\s+(\w+)$", status, re.M)
        assert ignored
        assert int(ignored[1], 16) & 1 << (signal.SIGINT - 1)
    finally:
        process.kill()
        process.communicate()
    socket = Path(line[1])
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    certificate = x509.load_der_x509_certificate(base64.b64decode(line[2] + "=="))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    key_files = [path for path in tmp_path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert key_files == []
