"""Sends a question to one name server. The question is repeated once if no answer arrives."""

import dns.exception
import dns.flags
import dns.message
import dns.rcode
from dns.name import Name
from dns.rdata import Rdata
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.CAA import CAA
from dns.rdtypes.nsbase import NSBase
from dns.rdtypes.txtbase import TXTBase

from edge.proofs import transport
from edge.proofs.agreement import Answer, FailedQuery, Records
from edge.proofs.servers import Role, Server
from edge.proofs.transport import AnswerTooLarge

_TRY = 0.8  # seconds without an answer until the question is repeated
_TRIES = 2


async def ask(server: Server, name: Name, kind: RdataType, role: Role) -> Answer:
    """Query a name server for the records of a name that have the type `kind`.

    If the server's role is "authoritative", an answer without the AA flag counts as a failure.
    """
    question = dns.message.make_query(name, kind)
    if role == "authoritative":
        question.flags &= ~dns.flags.RD
    for _ in range(_TRIES):
        try:
            answer = await transport.exchange(question, server.address, server.port, _TRY)
            return _read(answer, name, kind, role)
        except dns.exception.Timeout:
            continue
        except AnswerTooLarge:
            return FailedQuery("answers with more than 64 records or 4 KiB")
        except (dns.exception.DNSException, OSError, EOFError):
            return FailedQuery("cannot be queried")
    return FailedQuery("does not answer")


def _read(answer: dns.message.Message, name: Name, kind: RdataType, role: Role) -> Answer:
    if answer.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
        return FailedQuery(f"answers {dns.rcode.to_text(answer.rcode())}")
    if role == "authoritative" and not answer.flags & dns.flags.AA:
        return FailedQuery("is not authoritative for this zone")
    records = [record for rrset in answer.answer if rrset.name == name and rrset.rdtype == kind for record in rrset]
    return Records(frozenset(filter(None, map(_text, records))))


def _text(record: Rdata) -> str:
    """Return the content of a record as text.

    The text of a CNAME record is its target in lower case. The text of a CAA record has its flags, tag and value.
    """
    if isinstance(record, CAA):
        return f"{record.flags} {record.tag.decode('ascii', 'replace')} {record.value.decode('ascii', 'replace')}"
    if isinstance(record, TXTBase):
        return b"".join(record.strings).decode("ascii", "replace").strip()
    assert isinstance(record, NSBase)  # noqa: S101 (the class of CNAME)
    return record.target.to_text(omit_final_dot=True).lower()
