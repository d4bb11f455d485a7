"""The status of an edge: the planned status combined with Envoy's answers. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chalicelib import clock
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import BackendStatus, EdgeStatus, HostportStatus, RouteStatus, State
from edge.envoy.ads.catalog import Answer, Name
from edge.envoy.resources import Key
from edge.serving.standing import PlannedHostport, PlannedRoute, PlannedStatus

_ID = re.compile(r"\b[a-z]+_[0-9A-Za-z]{27}\b", flags=re.ASCII)
_FILE = re.compile(r"(?<![\w.:/])(?:/[\w.@~+-]+){2,}/?")
_LEAD = re.compile(r"^Error adding/updating \S+ \S+: ")

AnswerOf = Callable[[Name], Answer | None]  # Envoy's answer to the current version of a resource, or None


@dataclass(frozen=True)
class NextStatus:
    """A status. `is_settled` is False while an answer of Envoy is missing."""

    status: EdgeStatus
    is_settled: bool


def compute(planned: PlannedStatus, answered: AnswerOf, before: EdgeStatus | None, now: datetime) -> NextStatus:
    """Return the status of an edge. Parts with an unchanged state keep their time."""
    at, own_ids = clock.rfc3339(now), _own_ids(planned)
    since: dict[str, tuple[State, str]] = {}
    if before:
        since |= {it.hostport: (it.state, it.since) for it in before.hostports}
        since |= {it.id: (it.state, it.since) for it in before.routes}

    def since_of(name: str, state: State) -> str:
        state_before, began = since.get(name, (None, at))
        return began if state == state_before else at

    hostports = [(it, *_part_state(it, answered, own_ids)) for it in planned.hostports]
    hostports_state = edge_status.combine_states([state for _, state, _ in hostports])
    routes = [(it, *_route_state(it, answered, own_ids, hostports_state)) for it in planned.routes]
    status = EdgeStatus(
        _overall_state(hostports_state, [state for _, state, _ in routes]),
        planned.edge.revision,
        at,
        tuple(_hostport_status(it, state, error, since_of(it.hostport, state)) for it, state, error in hostports),
        tuple(RouteStatus(it.id, state, since_of(it.id, state), error) for it, state, error in routes),
        tuple(BackendStatus(id, count) for id, count in planned.backends),
    )
    is_same = before is not None and replace(before, at=at) == status
    return NextStatus(before if before and is_same else status, all(map(answered, dependencies(planned))))


def dependencies(planned: PlannedStatus) -> frozenset[Name]:
    """Return the resources that an edge's status depends on."""
    parts: list[PlannedHostport | PlannedRoute] = [*planned.hostports, *planned.routes]
    return frozenset(_resource_name(key) for it in parts for key in it.keys)


def redact(sentence: str, own_ids: Iterable[str]) -> str:
    """Return an error of Envoy without file names, and without ids except an edge's own ones."""
    allowed = frozenset(own_ids)
    text = _LEAD.sub("", " ".join(sentence.split()))
    text = _ID.sub(lambda found: found[0] if found[0] in allowed else "…", _FILE.sub("a file", text))
    return "".join(letter for letter in text if letter.isprintable())[: edge_status.MAX_ERROR]


def _own_ids(planned: PlannedStatus) -> frozenset[str]:
    certificates = {it.certificate_id for it in planned.hostports}
    backends = {id for id, _ in planned.backends}
    return frozenset({planned.edge.id, *(it.id for it in planned.routes), *certificates, *backends})


def _part_state(part: PlannedHostport | PlannedRoute, answered: AnswerOf, own_ids: Iterable[str]) -> tuple[State, str]:
    """Return the state and error of a hostport or route."""
    if part.state != "live":
        return part.state, redact(part.error, own_ids)
    answers = [answered(_resource_name(key)) for key in sorted(part.keys)]
    if refused := next((it.error for it in answers if it and it.error), ""):
        return "refused", redact(refused, own_ids)
    return ("live" if all(answers) else "waiting"), redact(part.error, own_ids)


def _route_state(
    route: PlannedRoute, answered: AnswerOf, own_ids: Iterable[str], hostports_state: State
) -> tuple[State, str]:
    """Return the state and error of a route, which is not live unless a hostport is."""
    state, error = _part_state(route, answered, own_ids)
    return (hostports_state, error) if state == "live" and hostports_state not in ("live", "partly") else (state, error)


def _overall_state(hostports_state: State, routes: Sequence[State]) -> State:
    if hostports_state not in ("live", "partly"):
        return hostports_state
    return edge_status.combine_states([hostports_state, *routes])


def _hostport_status(served: PlannedHostport, state: State, error: str, since: str) -> HostportStatus:
    end = clock.rfc3339(served.not_after) if served.not_after else ""
    return HostportStatus(served.hostport, state, since, error, served.certificate_id, end)


def _resource_name(key: Key) -> Name:
    return Name(key.kind, key.name)
