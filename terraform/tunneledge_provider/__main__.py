"""The program `terraform-provider-tunneledge`. Terraform starts it, and `install` installs it for Terraform."""

import os
import sys
from pathlib import Path

from tunneledge_provider import __version__, install

USAGE = """\
terraform-provider-tunneledge install [FOLDER]
    Write the provider into a folder of plugins, by default ~/.terraform.d/plugins, where terraform init finds it.
terraform-provider-tunneledge version
Without arguments, Terraform starts it."""


def main(arguments: list[str] | None = None) -> None:
    """Serve Terraform, or install the provider. Wrong usage exits with 2."""
    match sys.argv[1:] if arguments is None else arguments:
        case [] if "TF_PLUGIN_MAGIC_COOKIE" in os.environ:
            from tunneledge_provider import server  # imported only here, because importing gRPC takes long

            server.serve()
        case ["version"]:
            print(__version__)
        case ["install"]:
            print(install.install(install.FOLDER))
        case ["install", folder]:
            print(install.install(Path(folder).absolute()))
        case _:
            print(USAGE, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
