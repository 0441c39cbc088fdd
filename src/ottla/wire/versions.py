"""Which version of an API to speak with a peer, and the known versions of brokers that cannot list theirs.

A broker since 0.10 lists its versions in its ApiVersions answer (`advertised`). Older ones have no such
API; their versions are facts of their generation (`GENERATIONS`), found by probing or pinned by the user.
Either way the result is one `PeerVersions`, which belongs to one connection: brokers may differ while a
cluster is being upgraded.

Every API of ours exists from version 0 up to `Api.version_newest`, so a common version is the lower of
the two newest ones, if the peer still has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from ottla.model.errors import ConfigError, LocalProtocolError
from ottla.wire.api.api_versions import ApiVersionsResponse
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.schema import Api
from ottla.wire.version_range import VersionRange

# Kafka 4.x advertises Produce from 0, because librdkafka turns compression off otherwise (KAFKA-18659),
# but rejects 0 to 2. Its Fetch minimum of 4, which it does not disguise, gives it away.
_FETCH_OLDEST_OF_KAFKA_4 = 4
_PRODUCE_OLDEST_OF_KAFKA_4 = 3


class VersionsOrigin(Enum):
    """How the versions became known. A driver should ask again on its next connection after PROBED:
    a broker that was only slow to answer looks like 0.9."""

    ADVERTISED = "advertised by the peer"
    PROBED = "found by probing"
    PINNED = "pinned by the user"


@dataclass(frozen=True, slots=True)
class PeerVersions:
    """The versions that a peer accepts, by API key; `generation` is set if the peer cannot list them.

    `features` are the levels that the whole cluster has agreed on, such as transaction.version.
    """

    ranges: Mapping[int, VersionRange]
    origin: VersionsOrigin
    generation: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """Return the highest version common to us and the peer, not above `at_most`.

        Raises LocalProtocolError if there is none: sending anything would be misread by the peer.
        """
        newest = api.version_newest if at_most is None else min(at_most, api.version_newest)
        theirs = self.ranges.get(api.key)
        if theirs is None:
            raise LocalProtocolError(
                f"{self._who()} has no {api.name} (key {api.key}); use a newer broker or do without"
            )
        version = min(newest, theirs.newest)
        if version not in theirs or version < 0:
            remedy = "a newer ottla" if newest < theirs.oldest else "a newer broker"
            raise LocalProtocolError(
                f"no common version of {api.name} (key {api.key}): {self._who()} has {theirs}, "
                f"we may use 0 to {newest}; {remedy} is needed"
            )
        return version

    def _who(self) -> str:
        generation = f" {self.generation}" if self.generation else ""
        return f"the broker{generation} ({self.origin.value})"


def advertised(response: ApiVersionsResponse) -> PeerVersions:
    """Return the versions that a broker lists, with Produce corrected.

    Keys that we do not know are never looked up.
    """
    ranges = {row.api_key: VersionRange(row.min_version, row.max_version) for row in response.api_keys}
    fetch, produce = ranges.get(FetchRequest.API.key), ranges.get(ProduceRequest.API.key)
    if fetch and produce and fetch.oldest >= _FETCH_OLDEST_OF_KAFKA_4:
        oldest = max(produce.oldest, _PRODUCE_OLDEST_OF_KAFKA_4)
        ranges[ProduceRequest.API.key] = VersionRange(oldest, produce.newest)
    features = {row.name: row.max_version_level for row in response.finalized_features}
    return PeerVersions(
        MappingProxyType(ranges), VersionsOrigin.ADVERTISED, features=MappingProxyType(features)
    )


def _generation(newest: Mapping[Api, int]) -> Mapping[int, VersionRange]:
    return MappingProxyType({api.key: VersionRange(0, version) for api, version in newest.items()})


_NEWEST_0_8_0 = {
    ProduceRequest.API: 0,
    FetchRequest.API: 0,
    ListOffsetsRequest.API: 0,
    MetadataRequest.API: 0,
}
_NEWEST_0_8_1 = {**_NEWEST_0_8_0, OffsetCommitRequest.API: 0, OffsetFetchRequest.API: 0}
_NEWEST_0_8_2 = {
    **_NEWEST_0_8_1,
    OffsetCommitRequest.API: 1,
    OffsetFetchRequest.API: 1,
    FindCoordinatorRequest.API: 0,
}
_NEWEST_0_9 = {
    **_NEWEST_0_8_2,
    ProduceRequest.API: 1,
    FetchRequest.API: 1,
    OffsetCommitRequest.API: 2,
    JoinGroupRequest.API: 0,
    HeartbeatRequest.API: 0,
    LeaveGroupRequest.API: 0,
    SyncGroupRequest.API: 0,
    DescribeGroupsRequest.API: 0,
    ListGroupsRequest.API: 0,
}

GENERATIONS: Mapping[str, Mapping[int, VersionRange]] = MappingProxyType(
    {
        "0.8.0": _generation(_NEWEST_0_8_0),
        "0.8.1": _generation(_NEWEST_0_8_1),
        "0.8.2": _generation(_NEWEST_0_8_2),
        "0.9": _generation(_NEWEST_0_9),
    }
)
"""Versions of the brokers that have no ApiVersions. 0.8 does not check what it gets: a version that it
does not have is parsed as version 0 and answered so, hence these must never be exceeded."""


def probed(generation: str) -> PeerVersions:
    """Return the versions of a generation that probing has found."""
    return PeerVersions(GENERATIONS[generation], VersionsOrigin.PROBED, generation)


def pinned(version: str) -> PeerVersions:
    """Return the versions of the broker version that the user has set: "0.8.2", "0.9.0.1", ….

    Raises ConfigError for any other; brokers since 0.10 need no pin, they list their versions.
    """
    for generation, ranges in GENERATIONS.items():
        if version == generation or version.startswith(f"{generation}."):
            return PeerVersions(ranges, VersionsOrigin.PINNED, generation)
    raise ConfigError(
        f"broker version {version!r} cannot be pinned; known are {', '.join(GENERATIONS)}. "
        "Leave it unset for 0.10 and later: these brokers list their versions"
    )
