"""The processes that `make edge` runs."""

import subprocess
import sys

from edge.process import supervisor
from edge.process.settings import Settings
from tests.conftest import ROOT


def test_a_host_has_a_sign_in_service_unless_it_uses_those_of_other_hosts() -> None:
    assert supervisor.choose_parts(Settings()) == ("control", "gateway", "sign-in", "Envoy")
    linked = Settings(sign_in_hosts=(("10.0.0.5", 4440),))
    assert supervisor.choose_parts(linked) == ("control", "gateway", "Envoy")


def test_the_processes_that_call_no_service_of_aws_start_without_its_client() -> None:
    parts = "edge.__main__, edge.process.supervisor, edge.process.envoy_process.envoy_parent"
    script = f"import sys, {parts}; print({{'botocore', 'chalicelib.model', 'cryptography'}} & {{*sys.modules}})"
    output = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert output == "set()\n"
