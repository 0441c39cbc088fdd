"""DescribeCluster, over a socket."""

from __future__ import annotations

import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.wire.api.describe_cluster import DescribeClusterRequest
from ottla.wire.api.metadata import MetadataRequest
from tests.broker.wire_client import Client


@pytest.mark.parametrize("version", range(3))
def test_the_brokers_in_every_version(cluster: EmbeddedBroker, clients: list[Client], version: int) -> None:
    for client in clients:
        found = client.call(DescribeClusterRequest(), version)
        assert found.error_code == Code.NONE
        assert {f"{one.host}:{one.port}" for one in found.brokers} == set(cluster.bootstrap.split(","))
        assert [one.broker_id for one in found.brokers] == [0, 1, 2]
        metadata = client.call(MetadataRequest(topics=[]), 9)
        assert (found.cluster_id, found.controller_id) == (metadata.cluster_id, metadata.controller_id)
        assert not any(one.is_fenced for one in found.brokers)


def test_controllers_are_not_to_be_asked_here(client: Client) -> None:
    for version in (1, 2):
        found = client.call(DescribeClusterRequest(endpoint_type=2), version)
        assert (found.error_code, found.brokers) == (Code.MISMATCHED_ENDPOINT_TYPE, [])
        assert found.error_message
        found = client.call(DescribeClusterRequest(endpoint_type=3), version)
        assert found.error_code == Code.UNSUPPORTED_ENDPOINT_TYPE


def test_a_broker_that_left_is_not_told_of() -> None:
    with EmbeddedBroker(brokers=2) as cluster, Client.of(cluster.bootstrap.split(",")[1]) as client:
        cluster.stop_broker(0)
        found = client.call(DescribeClusterRequest())
        assert ([one.broker_id for one in found.brokers], found.controller_id) == ([1], 1)
        cluster.start_broker(0)
        assert len(client.call(DescribeClusterRequest()).brokers) == 2
