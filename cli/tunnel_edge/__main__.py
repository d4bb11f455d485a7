"""`python -m tunnel_edge`, the same as `te`."""

from tunnel_edge.app import main

main()
