"""The systemd units of the live edge."""

from configparser import ConfigParser, SectionProxy

from infra import ROOT

INSTANCES = ("envoy", "gateway")  # a host has two of them during a release


def service(process: str) -> SectionProxy:
    unit = ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    assert unit.read(ROOT / "infra" / "deploy" / f"tunnel-edge-{process}{'@' if process in INSTANCES else ''}.service")
    return unit["Service"]
