"""Online tunnels, and the SSH gateways at which clients open tunnels."""
