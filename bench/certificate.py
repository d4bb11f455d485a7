"""POST of a user certificate, ed25519, warm, behind the gateway's authorizer.

Against its raw store calls and one bare signature.
"""

from bench import requests, results, signing, warm
from bench.engines import Setting
from bench.results import Result

ROUNDS = 300


def measure(setting: Setting) -> Result:
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    path = "/ssh_user_certificates"
    event = requests.event("POST", path, setting.token, signing.request(authority), setting.context)
    ours, raw, calls = warm.cpu(event, ROUNDS, besides=signing.sign)
    name = f"POST certificate, CPU: {calls} raw calls + a signature"
    return Result([results.at_most(1.5, name, ours, raw, results.ms)])
