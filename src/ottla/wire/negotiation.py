"""Finding out which versions a broker speaks, for every generation from 0.8.0 to 4.x.

Theory of operation. The only request that may be sent to an unknown broker is ApiVersions, and what
happens then is the information:

    since 2.4       answers; if our version is newer than its own, in format v0 with error 35 and the
                    range that it has (KIP-511): ask again in that version on the same connection
    0.10 to 2.3     the same, but the list is empty: ask again in version 0
    0.9             says nothing, ever, and the connection stays open
    0.8.x           closes the connection

A silent or closed connection is lost: an answer that came late would be taken for that of the next
request. So the next request needs a new connection. After a close it is ApiVersions v0, since a close alone
may be a restart or a proxy that refuses new versions. After a second
close, or a silence, the newest API that is answered shows the generation: ListGroups came with 0.9,
FindCoordinator with 0.8.2, OffsetFetch with 0.8.1, and Metadata was there in 0.8.0.

A broker that was stopped, restarted or cut off for a moment looks old in this way, and with one that is taken
for old nobody has transactions. So when one has answered as an old broker does, it is asked for ApiVersions
once more, while it is known to answer; only if that is in vain, too, is it old.

An answer in version 0 has no features, such as transaction.version. A broker that names newer versions in it
is asked in the newest one; if that is in vain, a proxy does not pass them on, and version 0 has to do.

`Discovery` decides; it opens and sends nothing. It returns a `Question` (what to send, and whether on a
new connection) or `VersionsSettled`; the driver does that and reports `answered`, `closed` or `silent`, where
silence is the driver's own timeout. Nothing here reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LocalProtocolError, RemoteProtocolError
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.schema import Request, Response
from ottla.wire.transitions import advance
from ottla.wire.versions import PeerVersions, advertised, pinned, probed

SOFTWARE_NAME = "ottla"
PROBE_GROUP = "ottla-version-probe"
"""An unused group: the probes only read, but some broker may log the name."""
FEATURES_SINCE = 3
"""Of ApiVersions: its answers name the features that the cluster has agreed on."""


class Probe(StrEnum):
    """The states of the discovery: the request that the peer has to answer."""

    NOTHING = "nothing"
    NEWEST = "ApiVersions in our newest version"
    OLDER = "ApiVersions in the version that it has"
    OLDEST = "ApiVersions v0 on a second connection"
    LIST_GROUPS = "ListGroups"
    FIND_COORDINATOR = "FindCoordinator"
    OFFSET_FETCH = "OffsetFetch"
    METADATA = "Metadata"
    AGAIN = "ApiVersions v0 once more"
    FEATURES = "ApiVersions in the version that v0 has named"
    LAST = "ApiVersions v0 for the last time"
    OLD = "what an old broker has answered"
    SETTLED = "nothing more"
    FAILED = "nothing more, in vain"


class ProbeOutcome(StrEnum):
    """The events of the discovery: how the peer reacted."""

    START = "start"
    PINNED = "the user knows"
    ANSWERED = "answered"
    NEWER = "answered, and has a newer version"
    REFUSED = "refused the version"
    CLOSED = "closed"
    SILENT = "silent"


_IN_VAIN = {ProbeOutcome.CLOSED, ProbeOutcome.SILENT}


def _probe(next_probe: Probe) -> dict[ProbeOutcome, Probe]:
    return {ProbeOutcome.ANSWERED: Probe.AGAIN, **dict.fromkeys(_IN_VAIN, next_probe)}


TRANSITIONS: Mapping[Probe, Mapping[ProbeOutcome, Probe]] = {
    Probe.NOTHING: {ProbeOutcome.START: Probe.NEWEST, ProbeOutcome.PINNED: Probe.SETTLED},
    Probe.NEWEST: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        ProbeOutcome.REFUSED: Probe.OLDER,
        ProbeOutcome.CLOSED: Probe.OLDEST,
        ProbeOutcome.SILENT: Probe.LIST_GROUPS,
    },
    Probe.OLDER: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        ProbeOutcome.REFUSED: Probe.FAILED,
        ProbeOutcome.CLOSED: Probe.OLDEST,
        ProbeOutcome.SILENT: Probe.FAILED,  # the peer has ApiVersions, so it is slow and not old
    },
    Probe.OLDEST: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        ProbeOutcome.NEWER: Probe.FEATURES,
        ProbeOutcome.REFUSED: Probe.FAILED,
        ProbeOutcome.CLOSED: Probe.LIST_GROUPS,
        ProbeOutcome.SILENT: Probe.LIST_GROUPS,
    },
    Probe.LIST_GROUPS: _probe(Probe.FIND_COORDINATOR),
    Probe.FIND_COORDINATOR: _probe(Probe.OFFSET_FETCH),
    Probe.OFFSET_FETCH: _probe(Probe.METADATA),
    Probe.METADATA: _probe(Probe.FAILED),
    Probe.AGAIN: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        ProbeOutcome.NEWER: Probe.FEATURES,
        ProbeOutcome.REFUSED: Probe.FAILED,
        **dict.fromkeys(_IN_VAIN, Probe.OLD),
    },
    Probe.FEATURES: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        **dict.fromkeys((*_IN_VAIN, ProbeOutcome.REFUSED), Probe.LAST),
    },
    Probe.LAST: {
        ProbeOutcome.ANSWERED: Probe.SETTLED,
        ProbeOutcome.REFUSED: Probe.FAILED,
        **dict.fromkeys(_IN_VAIN, Probe.FAILED),
    },
    Probe.OLD: {ProbeOutcome.ANSWERED: Probe.SETTLED, **dict.fromkeys(_IN_VAIN, Probe.FAILED)},
    Probe.SETTLED: {},
    Probe.FAILED: {},
}

_GENERATION_BY_PROBE = {
    Probe.LIST_GROUPS: "0.9",
    Probe.FIND_COORDINATOR: "0.8.2",
    Probe.OFFSET_FETCH: "0.8.1",
    Probe.METADATA: "0.8.0",
}


class ProbeLink(Enum):
    """The connection that a question goes to."""

    SAME = "the present connection"
    NEW = "a new connection; drop the present one"


@dataclass(frozen=True, slots=True)
class Question:
    """Send `request` in `version` on `link`, then report the outcome."""

    request: Request[Any]
    version: int
    link: ProbeLink


@dataclass(frozen=True, slots=True)
class VersionsSettled:
    """The versions are known. The connection of the last answer may be used further."""

    versions: PeerVersions


Plan = Question | VersionsSettled


# KIP-511: letters, digits, "-" and "." inside; a broker refuses the whole question for a "+" in a version.
_ILLEGAL = re.compile(r"[^a-zA-Z0-9.-]")


class Discovery:
    """One broker's version discovery, over as many connections as it takes.

        plan = discovery.start()
        while isinstance(plan, Question):
            connect if plan.link is ProbeLink.NEW; send plan.request in plan.version
            plan = discovery.answered(message)   or .closed()   or .silent()
        connection.adopt(plan.versions)

    `pin` ("0.8.2", "0.9") settles it at once. Raises RemoteProtocolError when nothing is left to ask.
    """

    def __init__(self, *, software_version: str, pin: str | None = None) -> None:
        self._software_version = _ILLEGAL.sub("-", software_version).strip("-.") or "unknown"
        self._pin = pinned(pin) if pin is not None else None
        self._probe = Probe.NOTHING
        self._version = 0  # of the last ApiVersions
        self._answered = Probe.NOTHING  # the probe that shows the generation
        self._history: list[str] = []

    def start(self) -> Plan:
        """Return the first step, on a new connection."""
        if self._pin is not None:
            self._advance(ProbeOutcome.PINNED)
            return VersionsSettled(self._pin)
        return self._next(ProbeOutcome.START)

    def answered(self, response: Response) -> Plan:
        """Process the peer's answer, and return the next step."""
        if self._probe in _GENERATION_BY_PROBE:
            self._answered = self._probe
            return self._next(ProbeOutcome.ANSWERED)
        if self._probe is Probe.OLD:
            self._advance(ProbeOutcome.ANSWERED)
            return VersionsSettled(probed(_GENERATION_BY_PROBE[self._answered]))
        if not isinstance(response, ApiVersionsResponse):
            raise LocalProtocolError(f"{type(response).__name__} is no answer to {self._probe.value}")
        if response.error_code == Code.UNSUPPORTED_VERSION:
            self._version = _version_offered(response, self._version)
            return self._next(ProbeOutcome.REFUSED)
        if response.error_code != Code.NONE:
            self._advance(ProbeOutcome.ANSWERED)
            raise KafkaError(response.error_code, "the broker refused to list its versions")
        newest = min(_newest_listed(response), ApiVersionsRequest.API.version_newest)
        if ProbeOutcome.NEWER in TRANSITIONS[self._probe] and newest >= FEATURES_SINCE:
            self._version = newest
            return self._next(ProbeOutcome.NEWER)
        self._advance(ProbeOutcome.ANSWERED)
        return VersionsSettled(advertised(response))

    def closed(self) -> Plan:
        """Note that the peer closed the connection instead of answering. Returns the next step."""
        return self._next(ProbeOutcome.CLOSED)

    def silent(self) -> Plan:
        """Note that no answer came in time. Returns the next step."""
        return self._next(ProbeOutcome.SILENT)

    def _advance(self, outcome: ProbeOutcome) -> None:
        self._history.append(f"{self._probe.value}: {outcome.value}")
        self._probe = advance(TRANSITIONS, self._probe, outcome)

    def _next(self, outcome: ProbeOutcome) -> Question:
        self._advance(outcome)
        if self._probe is Probe.FAILED:
            tried = "; ".join(self._history[1:])
            raise RemoteProtocolError(
                f"the peer is no Kafka broker that we know, or does not serve us ({tried}): "
                "check the port, whether it wants TLS or SASL, and the broker's log"
            )
        is_served = outcome in {ProbeOutcome.REFUSED, ProbeOutcome.NEWER}
        link = ProbeLink.SAME if is_served else ProbeLink.NEW
        return Question(*self._question(), link)

    def _question(self) -> tuple[Request[Any], int]:
        match self._answered if self._probe is Probe.OLD else self._probe:
            case Probe.LIST_GROUPS:
                return ListGroupsRequest(), 0
            case Probe.FIND_COORDINATOR:
                return FindCoordinatorRequest(key=PROBE_GROUP), 0
            case Probe.OFFSET_FETCH:
                return OffsetFetchRequest(group_id=PROBE_GROUP), 0
            case Probe.METADATA:
                return MetadataRequest(), 0
            case Probe.NEWEST:
                self._version = ApiVersionsRequest.API.version_newest
            case Probe.OLDEST | Probe.AGAIN | Probe.LAST:
                self._version = 0
        names = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=self._software_version
        )
        return names, self._version


def _version_offered(response: ApiVersionsResponse, refused: int) -> int:
    """Return the ApiVersions version to ask in next: the peer's newest below the refused one, else 0."""
    return max(0, min(_newest_listed(response), refused - 1))


def _newest_listed(response: ApiVersionsResponse) -> int:
    """Return the peer's newest version of ApiVersions, 0 if it does not say."""
    key = ApiVersionsRequest.API.key
    return max((row.max_version for row in response.api_keys if row.api_key == key), default=0)
