"""Tests of the live edge. gRPC reads its setting when it is imported, so it stands here."""

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # its handlers may hang a fork, which tests of child processes make
