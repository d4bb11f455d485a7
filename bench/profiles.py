"""`make bench-profile`: where the time of the slowest figures goes. Shares, to be read beside the table."""

import cProfile
import json
import logging
import pstats
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from bench import cold_authorizer, cold_start, engines, load, package, requests, servers, signing
from bench.engines import Setting
from infra import ROOT, CommandError
from infra.local import signals

_REQUESTS, _SECONDS, _LINES = 200, 5, 9
_CLIENT = "chalicelib.storage.aws"
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| +(\S+)")


def main() -> None:
    signals.interrupt()
    logging.disable(logging.INFO)
    try:
        with TemporaryDirectory() as folder, engines.started(Path(folder), ()) as setting:
            _all(setting)
    except CommandError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")


def _all(setting: Setting) -> None:
    id = requests.create("/backends/weighted", setting.token, {})["id"]
    read = requests.event("GET", f"/backends/weighted/{id}", setting.token, context=setting.context)
    _imports("cold start", [cold_start.OURS, json.dumps(read)])
    _imports("cold authorizer", [cold_authorizer.OURS, json.dumps({"headers": requests.headers(setting.token)})])
    for name, event in _warm(setting, id).items():
        _calls(name, event)
    _processes(setting)


def _imports(name: str, arguments: list[str]) -> None:
    """Print milliseconds of imports by package, as Python measures them, and of the client with all its imports."""
    with package.unpacked() as python:
        command = [python[0], "-X", "importtime", *python[1:], *arguments]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    spent: dict[str, float] = defaultdict(float)
    imports = _IMPORT.findall(said)
    for microseconds, _, module in imports:
        spent[module.partition(".")[0]] += int(microseconds) / 1000
    _print(f"{name}: milliseconds of imports", spent)
    [client] = [int(cumulative) / 1000 for _, cumulative, module in imports if module == _CLIENT]
    print(_line(f"{_CLIENT} with all that it is the first to import", client, sum(spent.values())))


def _warm(setting: Setting, id: str) -> dict[str, dict[str, Any]]:
    for _ in range(100):
        requests.create("/backends/weighted", setting.token, {"backends": {"bkdhr_" + "0" * 27: 1}})
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    certificate = signing.request(authority)
    path = "/ssh_user_certificates"
    return {
        "GET one": requests.event("GET", f"/backends/weighted/{id}", setting.token),
        "list of 100": requests.event("GET", "/backends/weighted", setting.token, context=setting.context),
        "POST certificate": requests.event("POST", path, setting.token, certificate, setting.context),
    }


def _calls(name: str, event: Mapping[str, Any]) -> None:
    """Print milliseconds of a request by package, with the waits for the engine and the profiler's own overhead."""
    requests.answer(event)
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(_REQUESTS):
        requests.answer(event)
    profile.disable()
    spent: dict[str, float] = defaultdict(float)
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    for (file, _, function), timing in stats.items():
        spent[_package(file, function)] += timing[2] * 1000 / _REQUESTS
    _print(f"{name}: milliseconds of a request, profiled", spent)


def _package(file: str, function: str) -> str:
    if file == "~":
        return "the socket, waiting for the engine" if "socket" in function else "built in"
    if "site-packages/" in file:
        return file.partition("site-packages/")[2].partition("/")[0]
    return "this service" if file.startswith(str(ROOT)) else "Python's library"


def _processes(setting: Setting) -> None:
    """Print CPU milliseconds of each process for a certificate over HTTP."""
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    with servers.ours() as server:
        parts = {_role(child): child for child in psutil.Process().children(recursive=True)}
        before = {role: sum(child.cpu_times()[:2]) for role, child in parts.items()}
        rate = load.rate(
            server.url,
            path="/ssh_user_certificates",
            headers=requests.headers(setting.token),
            clients=8,
            seconds=_SECONDS,
            body=signing.request(authority),
            status=201,
        )
        spent = {
            role: (sum(child.cpu_times()[:2]) - before[role]) * 1000 / (rate * _SECONDS)
            for role, child in parts.items()
        }
    _print(f"certificates over HTTP, 8 clients, {rate:.0f} /s: CPU milliseconds of each", spent)


def _role(process: psutil.Process) -> str:
    return "the embedded cloud" if "infra.local.embedded" in " ".join(process.cmdline()) else "the API's server"


def _print(title: str, spent: Mapping[str, float]) -> None:
    total = sum(spent.values())
    print(f"{title}: {total:.1f}")
    for place, milliseconds in sorted(spent.items(), key=lambda part: -part[1])[:_LINES]:
        print(_line(place, milliseconds, total))


def _line(place: str, milliseconds: float, total: float) -> str:
    return f"  {milliseconds:8.2f}  {100 * milliseconds / total:3.0f} %  {place}"


if __name__ == "__main__":
    main()
