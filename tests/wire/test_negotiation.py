"""Version discovery: every row of its table, and the brokers of each generation."""

from itertools import product

import pytest

from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, LocalProtocolError, RemoteProtocolError
from ottla.wire.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeature,
)
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.negotiation import (
    TRANSITIONS,
    Discovery,
    Plan,
    Probe,
    ProbeLink,
    ProbeOutcome,
    Question,
    VersionsSettled,
)
from ottla.wire.schema import Response, encode
from ottla.wire.transitions import advance
from ottla.wire.versions import VersionsOrigin

NEWEST = ApiVersionsRequest.API.version_newest
LIST = ApiVersionsResponse(api_keys=[ApiVersion(api_key=1, min_version=0, max_version=11)])


def refusal(*offers: tuple[int, int]) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=18, min_version=low, max_version=high) for low, high in offers]
    return ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=rows)


def started(**options: str) -> tuple[Discovery, Plan]:
    discovery = Discovery(software_version="1.2", **options)
    return discovery, discovery.start()


def report(discovery: Discovery, outcome: str | Response) -> Plan:
    match outcome:
        case "closed":
            return discovery.closed()
        case "silent":
            return discovery.silent()
        case Response():
            return discovery.answered(outcome)
    raise AssertionError(outcome)


def test_the_first_question_is_api_versions_in_our_newest_version() -> None:
    _, plan = started()
    names = ApiVersionsRequest(client_software_name="ottla", client_software_version="1.2")
    assert plan == Question(names, NEWEST, ProbeLink.NEW)


def test_an_answer_settles_it() -> None:
    discovery, _ = started()
    plan = discovery.answered(LIST)
    assert isinstance(plan, VersionsSettled)
    assert plan.versions.version_for(FetchRequest.API) == 11
    assert plan.versions.origin is VersionsOrigin.ADVERTISED


@pytest.mark.parametrize(
    ("offers", "version"),
    [
        ([(0, 3)], 3),  # 2.4 to 3.4, KIP-511
        ([], 0),  # 0.10 to 2.3: error 35 and nothing else
        ([(0, NEWEST)], NEWEST - 1),  # nonsense: it has just refused that version
        ([(0, 99)], NEWEST - 1),
        ([(-3, -1)], 0),
    ],
)
def test_a_refusal_is_followed_by_the_offered_version_on_the_same_connection(
    offers: list[tuple[int, int]], version: int
) -> None:
    discovery, _ = started()
    plan = discovery.answered(refusal(*offers))
    assert isinstance(plan, Question)
    assert (type(plan.request), plan.version, plan.link) == (ApiVersionsRequest, version, ProbeLink.SAME)
    assert isinstance(discovery.answered(LIST), VersionsSettled)


GENERATIONS = {
    "0.9": ["silent", ListGroupsResponse(), "silent", ListGroupsResponse()],
    "0.8.2": ["closed"] * 3 + [(told := FindCoordinatorResponse(error_code=15)), "closed", told],
    "0.8.1": ["closed"] * 4 + [OffsetFetchResponse(), "closed", OffsetFetchResponse()],
    "0.8.0": ["closed"] * 5 + [MetadataResponse(), "closed", MetadataResponse()],
}


@pytest.mark.parametrize(("generation", "outcomes"), GENERATIONS.items())
def test_silent_and_closing_brokers_are_told_apart_by_probes(
    generation: str, outcomes: list[str | Response]
) -> None:
    discovery, plan = started()
    for outcome in outcomes:
        assert isinstance(plan, Question)
        assert plan.link is ProbeLink.NEW
        encode(plan.request, plan.version)
        plan = report(discovery, outcome)
    assert isinstance(plan, VersionsSettled)
    assert (plan.versions.generation, plan.versions.origin) == (generation, VersionsOrigin.PROBED)


@pytest.mark.parametrize("outcomes", GENERATIONS.values(), ids=GENERATIONS)
def test_a_broker_that_was_stuck_for_a_moment_is_not_taken_for_an_old_one(
    outcomes: list[str | Response],
) -> None:
    """Nobody would read or write in transactions there, and readers of committed records would see all."""
    discovery, _ = started()
    for outcome in outcomes[:-2]:
        plan = report(discovery, outcome)
    assert isinstance(plan, Question)
    assert (type(plan.request), plan.version, plan.link) == (ApiVersionsRequest, 0, ProbeLink.NEW)
    plan = discovery.answered(LIST)
    assert isinstance(plan, VersionsSettled)
    assert plan.versions.origin is VersionsOrigin.ADVERTISED


@pytest.mark.parametrize("verdict", ["closed", "silent"])
def test_probes_go_from_the_newest_generation_to_the_oldest(verdict: str) -> None:
    discovery, plan = started()
    asked = []
    while not (isinstance(plan, Question) and isinstance(plan.request, MetadataRequest)):
        assert isinstance(plan, Question)
        asked.append((type(plan.request), plan.version))
        plan = report(discovery, verdict)
    asked.append((type(plan.request), plan.version))
    with pytest.raises(RemoteProtocolError, match=rf"Metadata: {verdict}\).*TLS or SASL"):
        report(discovery, verdict)
    probes = [ListGroupsRequest, FindCoordinatorRequest, OffsetFetchRequest, MetadataRequest]
    assert asked[-4:] == [(probe, 0) for probe in probes]
    assert asked[:-4] == [(ApiVersionsRequest, NEWEST), (ApiVersionsRequest, 0)][: len(asked) - 4]


def test_a_single_close_may_be_a_restart_so_the_question_is_put_again() -> None:
    discovery, _ = started()
    plan = discovery.closed()
    assert isinstance(plan, Question)
    assert (type(plan.request), plan.version, plan.link) == (ApiVersionsRequest, 0, ProbeLink.NEW)
    assert isinstance(discovery.answered(LIST), VersionsSettled)


def listing(newest: int) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=18, max_version=newest), ApiVersion(api_key=1, max_version=11)]
    return ApiVersionsResponse(api_keys=rows)


@pytest.mark.parametrize(("listed", "asked"), [(3, 3), (4, 4), (99, NEWEST)])
@pytest.mark.parametrize("outcomes", [["closed"], *(each[:-2] for each in GENERATIONS.values())])
def test_a_broker_that_was_restarted_tells_its_features(
    outcomes: list[str | Response], listed: int, asked: int
) -> None:
    """ApiVersions v0 has none. Without transaction.version a producer would take the older protocol."""
    discovery, _ = started()
    for outcome in outcomes:
        report(discovery, outcome)
    plan = discovery.answered(listing(listed))
    assert isinstance(plan, Question)
    assert (type(plan.request), plan.version, plan.link) == (ApiVersionsRequest, asked, ProbeLink.SAME)
    told = listing(listed)
    told.finalized_features = [FinalizedFeature("transaction.version", 2, 2)]
    plan = discovery.answered(told)
    assert isinstance(plan, VersionsSettled)
    assert plan.versions.features == {"transaction.version": 2}


@pytest.mark.parametrize(
    ("verdict", "link"),
    [("closed", ProbeLink.NEW), ("silent", ProbeLink.NEW), (refusal((0, NEWEST)), ProbeLink.SAME)],
    ids=["closed", "silent", "refused"],
)
def test_a_proxy_that_takes_old_versions_only_is_asked_in_them(
    verdict: str | Response, link: ProbeLink
) -> None:
    discovery, _ = started()
    discovery.closed()
    discovery.answered(listing(NEWEST))
    plan = report(discovery, verdict)
    assert isinstance(plan, Question)
    assert (type(plan.request), plan.version, plan.link) == (ApiVersionsRequest, 0, link)
    plan = discovery.answered(listing(NEWEST))
    assert isinstance(plan, VersionsSettled)
    assert plan.versions.version_for(FetchRequest.API) == 11


def test_a_broker_without_features_is_not_asked_for_them() -> None:
    discovery, _ = started()
    discovery.closed()
    assert isinstance(discovery.answered(listing(2)), VersionsSettled)


def test_a_broker_that_refuses_its_own_offer_is_given_up() -> None:
    discovery, _ = started()
    discovery.answered(refusal((0, 3)))
    with pytest.raises(RemoteProtocolError, match="the version that it has: refused the version"):
        discovery.answered(refusal((0, 3)))


def test_another_error_is_raised_with_its_code() -> None:
    discovery, _ = started()
    with pytest.raises(KafkaError, match="CLUSTER_AUTHORIZATION_FAILED"):
        discovery.answered(ApiVersionsResponse(error_code=Code.CLUSTER_AUTHORIZATION_FAILED))


def test_an_answer_to_something_else_is_the_drivers_mistake() -> None:
    discovery, _ = started()
    with pytest.raises(LocalProtocolError, match="MetadataResponse is no answer to ApiVersions"):
        discovery.answered(MetadataResponse())


def test_a_pin_settles_it_without_a_question() -> None:
    _, plan = started(pin="0.8.2")
    assert isinstance(plan, VersionsSettled)
    assert (plan.versions.generation, plan.versions.origin) == ("0.8.2", VersionsOrigin.PINNED)
    with pytest.raises(ConfigError, match="known are"):
        Discovery(software_version="1.2", pin="7.0")


def test_nothing_can_be_reported_before_the_start_or_after_the_end() -> None:
    discovery = Discovery(software_version="1.2")
    with pytest.raises(
        LocalProtocolError, match="Probe 'nothing': 'closed' is not possible; possible: start"
    ):
        discovery.closed()
    discovery.start()
    discovery.answered(LIST)
    with pytest.raises(
        LocalProtocolError, match="'nothing more': 'answered' is not possible; possible: nothing"
    ):
        discovery.answered(LIST)


@pytest.mark.parametrize(("asked", "outcome"), list(product(Probe, ProbeOutcome)))
def test_the_table_decides_every_outcome_of_every_question(asked: Probe, outcome: ProbeOutcome) -> None:
    if outcome in TRANSITIONS[asked]:
        assert advance(TRANSITIONS, asked, outcome) is TRANSITIONS[asked][outcome]
    else:
        with pytest.raises(LocalProtocolError, match="not possible"):
            advance(TRANSITIONS, asked, outcome)


def test_every_question_ends_after_finitely_many_outcomes() -> None:
    """No cycles: discovery costs at most a handful of connections."""

    def depth(asked: Probe) -> int:
        return 1 + max((depth(after) for after in TRANSITIONS[asked].values()), default=0)

    assert depth(Probe.NOTHING) <= 12
    assert set(TRANSITIONS) == set(Probe)


def test_a_version_that_brokers_refuse_is_made_acceptable() -> None:
    """KIP-511 allows letters, digits, dots and dashes; a local version has a plus."""
    plan = Discovery(software_version="0.1.0.dev3+gabc").start()
    assert isinstance(plan, Question)
    assert plan.request.client_software_version == "0.1.0.dev3-gabc"  # type: ignore[attr-defined]
