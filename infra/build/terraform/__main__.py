"""`make terraform`: build the wheel of the Terraform provider, and install it into a folder of plugins."""

import subprocess
import sys

from infra import ROOT, CommandError
from infra.build import wheels
from infra.build.terraform import wheel

FOLDER = ROOT / "build" / "terraform"
MAX_SIZE = 200 * 1024  # size limit of the wheel in bytes


def main() -> None:
    """Write `build/terraform`. A failure exits with one sentence and status 1."""
    try:
        built = wheels.build_twice(wheel.build_wheel, FOLDER, MAX_SIZE)
        wheels.write_bill(built, wheel.PYTHON)
        program = wheel.install(built, FOLDER / "environment")
        subprocess.run([str(program), "install", str(FOLDER / "plugins")], check=True)
    except CommandError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
