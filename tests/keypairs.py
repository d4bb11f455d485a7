"""RSA keys of 2048 bits, made once for all tests of a process: each takes a tenth of a second."""

from chalicelib.crypto import keys

RSA, OTHER_RSA = keys.generate_rsa(2048), keys.generate_rsa(2048)
