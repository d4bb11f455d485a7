"""`python -m tests.again`: run the tests that failed last once more, one by one.

Tests of real processes depend on the clock. A machine that others load can make one of them fail by chance. CI tries
such a test again, alone, and prints its name in any case: a test that is listed often has a fault, or has found one.
"""

import json
import sys

import pytest

from tests.conftest import ROOT

_MOST = 3  # more failures are no chance
_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"


def main() -> int:
    """Run them. Return 0 if all of them pass now."""
    failed = list(json.loads(_FAILED.read_text())) if _FAILED.exists() else []
    if not failed or len(failed) > _MOST:
        print(f"not tried again: {len(failed)} tests failed, and 1 to {_MOST} are tried again")
        return 1
    print("failed, and tried again alone:", *failed, sep="\n  ")
    return pytest.main(failed)


if __name__ == "__main__":
    sys.exit(main())
