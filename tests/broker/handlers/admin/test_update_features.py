"""UpdateFeatures: levels that the broker has, and others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.broker.handlers.api_versions import FEATURES
from ottla.model.error_codes import Code
from ottla.wire.api.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.wire_client import Client

NAME, LEVEL = next(iter(FEATURES.items()))


def asked(client: Client, version: int, levels: Mapping[str, int]) -> UpdateFeaturesResponse:
    updates = [FeatureUpdate(feature=name, max_version_level=level) for name, level in levels.items()]
    return client.call(UpdateFeaturesRequest(timeout_ms=1000, feature_updates=updates), version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_wrong_level_fails_the_request(client: Client, version: int) -> None:
    """Sarama's own tests count on it: Kafka 4.3.1 answers so in every version."""
    for wrong in ({"no.such": 1}, {NAME: LEVEL + 1}):
        answer = asked(client, version, {NAME: LEVEL} | wrong)
        assert (answer.error_code, answer.results) == (Code.INVALID_UPDATE_VERSION, [])
        assert next(iter(wrong)) in (answer.error_message or "")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_present_level_changes_nothing(client: Client, version: int) -> None:
    answer = asked(client, version, {NAME: LEVEL})
    assert answer.error_code == Code.NONE
    listed = [(result.feature, result.error_code) for result in answer.results]
    assert listed == ([(NAME, Code.NONE)] if version < 2 else [])
