"""`te`, the same as `python -m tunnel_edge`."""

import os
import sys


def main() -> None:
    """Run the command of the arguments, and exit with its code.

    The list of all commands is written when the wheel is built: importing click takes longer than everything else.
    """
    if sys.argv[1:] in (["--help"], ["-h"]):
        with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as text:
            print(text.read(), end="")
    else:
        from tunnel_edge import app

        sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
