"""`te`, the same as `python -m tunnel_edge`."""

import os
import sys


def main() -> None:
    """Run the command that the arguments name, and exit with its code.

    The help page is written when the wheel is built, because importing click takes longer than printing the page.
    """
    if sys.argv[1:] in (["--help"], ["-h"]):
        with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as text:
            print(text.read(), end="")
    else:
        from tunnel_edge import app

        sys.exit(app.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
