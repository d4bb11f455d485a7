"""IP policies and their rules, which admit or deny visitors by their address."""
