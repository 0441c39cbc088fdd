"""Choosing a version for each API: what a peer advertises, fixed generations, pins."""

from typing import Any

import pytest

from ottla.model.errors import ConfigError, LocalProtocolError
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Request
from ottla.wire.version_range import VersionRange
from ottla.wire.versions import GENERATIONS, PeerVersions, VersionsOrigin, advertised, pinned, probed

PRODUCE, FETCH, METADATA = ProduceRequest.API, FetchRequest.API, MetadataRequest.API


def peer(*rows: tuple[int, int, int]) -> PeerVersions:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in rows]
    return advertised(ApiVersionsResponse(api_keys=keys))


@pytest.mark.parametrize(
    ("low", "high", "at_most", "chosen"),
    [
        (0, 3, None, 3),
        (0, 99, None, FETCH.version_newest),
        (4, 17, 12, 12),
        (0, 3, 12, 3),
        (FETCH.version_newest, 99, None, FETCH.version_newest),
        (-5, 0, None, 0),
    ],
)
def test_the_highest_common_version_is_chosen(low: int, high: int, at_most: int | None, chosen: int) -> None:
    assert peer((1, low, high)).version_for(FETCH, at_most=at_most) == chosen


def test_no_common_version_names_the_api_both_ranges_and_the_remedy() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"Fetch \(key 1\): the broker .* has 90 to 99, .*0 to \d+; a newer ottla"
    ):
        peer((1, 90, 99)).version_for(FETCH)
    with pytest.raises(LocalProtocolError, match=r"has 4 to 17, we may use 0 to 3; a newer ottla"):
        peer((1, 4, 17)).version_for(FETCH, at_most=3)


@pytest.mark.parametrize(("low", "high"), [(5, 2), (-3, -1)])
def test_an_impossible_range_is_never_used(low: int, high: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"{low} to {high}"):
        peer((1, low, high)).version_for(FETCH)


def test_an_absent_api_names_the_broker_and_the_key() -> None:
    with pytest.raises(
        LocalProtocolError, match=r"broker 0\.8\.2 \(pinned by the user\) has no JoinGroup \(key 11\)"
    ):
        pinned("0.8.2").version_for(JoinGroupRequest.API)


def test_unknown_keys_do_no_harm() -> None:
    versions = peer((9999, 0, 3), (-7, 0, 0), (1, 0, 11))
    assert versions.version_for(FETCH) == 11
    assert versions.origin is VersionsOrigin.ADVERTISED


@pytest.mark.parametrize(
    ("fetch", "produce", "clamped"),
    [
        ((4, 18), (0, 13), VersionRange(3, 13)),  # 4.x, which disguises its minimum
        ((4, 18), (5, 13), VersionRange(5, 13)),
        ((0, 17), (0, 11), VersionRange(0, 11)),  # 3.9
        ((3, 17), (0, 11), VersionRange(0, 11)),
    ],
)
def test_the_produce_minimum_of_kafka_4_is_put_right(
    fetch: tuple[int, int], produce: tuple[int, int], clamped: VersionRange
) -> None:
    assert peer((0, *produce), (1, *fetch)).ranges[PRODUCE.key] == clamped


def test_the_clamp_needs_both_apis() -> None:
    assert FETCH.key in peer((1, 4, 18)).ranges
    assert peer((0, 0, 13)).ranges[PRODUCE.key] == VersionRange(0, 13)


@pytest.mark.parametrize(
    ("kind", "by_generation"),
    [
        (ProduceRequest, {"0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9": 1}),
        (FetchRequest, {"0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9": 1}),
        (MetadataRequest, {"0.8.0": 0, "0.8.1": 0, "0.8.2": 0, "0.9": 0}),
        (OffsetCommitRequest, {"0.8.1": 0, "0.8.2": 1, "0.9": 2}),
        (OffsetFetchRequest, {"0.8.1": 0, "0.8.2": 1, "0.9": 1}),
        (FindCoordinatorRequest, {"0.8.2": 0, "0.9": 0}),
        (JoinGroupRequest, {"0.9": 0}),
    ],
)
def test_generations_have_the_versions_of_their_brokers(
    kind: type[Request[Any]], by_generation: dict[str, int]
) -> None:
    ranges = {name: table[kind.API.key] for name, table in GENERATIONS.items() if kind.API.key in table}
    assert ranges == {name: VersionRange(0, newest) for name, newest in by_generation.items()}
    for name, newest in by_generation.items():
        assert probed(name).version_for(kind.API) == newest


@pytest.mark.parametrize(
    ("pin", "generation"),
    [("0.8.0", "0.8.0"), ("0.8.2", "0.8.2"), ("0.8.2.2", "0.8.2"), ("0.9", "0.9"), ("0.9.0.1", "0.9")],
)
def test_a_pin_may_be_the_generation_or_an_exact_release(pin: str, generation: str) -> None:
    assert (pinned(pin).generation, pinned(pin).origin) == (generation, VersionsOrigin.PINNED)


@pytest.mark.parametrize("pin", ["", "0.8", "0.90", "0.10.2", "2.8", "latest"])
def test_an_unknown_pin_names_what_is_known(pin: str) -> None:
    with pytest.raises(
        ConfigError, match=r"known are 0\.8\.0, 0\.8\.1, 0\.8\.2, 0\.9\. Leave it unset for 0\.10"
    ):
        pinned(pin)
