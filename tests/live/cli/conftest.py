"""The wheel beside a whole edge."""

from tests.cli.conftest import api, te, user

__all__ = ["api", "te", "user"]
