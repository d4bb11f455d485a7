"""The operator's command line: `python -m chalicelib`."""

import sys

from chalicelib.operator.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    main(sys.argv[1:])
