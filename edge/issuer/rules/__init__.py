"""The issuer's rules: times of renewals and retries, limits on orders, turns of accounts, the preflight.

These files do no I/O.
"""
