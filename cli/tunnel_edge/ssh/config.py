"""The block in OpenSSH's configuration that makes ssh renew certificates."""

from collections.abc import Sequence
from pathlib import Path

from tunnel_edge.identity import files
from tunnel_edge.identity.profiles import DEFAULT, Profile
from tunnel_edge.ssh import certificates


def block(profile: Profile, hosts: Sequence[str]) -> str:
    """Return the block for hosts that match one of the patterns `hosts`. Without patterns, it is for every host."""
    flag = "" if profile.name == DEFAULT else f" --profile {profile.name}"
    lines = [f'Match host {",".join(hosts) or "*"} exec "te ssh ensure{flag} %n %r"']
    if profile.uses_files:
        lines += [
            f"    IdentityFile {_quote(certificates.key_file(profile))}",
            f"    CertificateFile {_quote(certificates.certificate_file(profile))}",
        ]
    return "\n".join(lines) + "\n"


def install(profile: Profile, text: str) -> tuple[Path, Path]:
    """Write a block to a separate file, and include this file at the beginning of `~/.ssh/config`."""
    folder = Path.home() / ".ssh"
    block_file, config = folder / f"te-{profile.name}.conf", folder / "config"
    files.write_private(block_file, text.encode())
    present = config.read_text(encoding="utf-8") if config.exists() else ""
    line = f"Include {block_file.name}\n"
    if line not in present:
        files.write_secret(config, (line + present).encode())
    return block_file, config


def _quote(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)
