"""Admin: manages a cluster, with calls that block. `AdminCalls` implements them, for threads and asyncio."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from ottla.admin.admin_calls import AdminCalls
from ottla.admin.admin_config import AdminConfig
from ottla.client.conversation import completed
from ottla.client.pool import ThreadDriver
from ottla.model.closing import Closing
from ottla.model.forgotten import stop_if_forgotten
from ottla.model.property_table import merged

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[AdminCalls, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Admin, P], T]:
    """Return the call with the same arguments and result, for a thread."""

    @functools.wraps(call)
    def method(admin: Admin, /, *args: P.args, **keywords: P.kwargs) -> T:
        return completed(call(admin._calls, *args, **keywords))

    return method


class Admin(Closing):
    """Manages topics, settings, records and groups of a cluster. Connects with the first call.

        >>> from ottla import Admin, EmbeddedBroker
        >>> from ottla.admin import NewTopic
        >>> with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        ...     _ = admin.create_topics(NewTopic("orders", partitions=3))
        ...     print(admin.list_topics(), len(admin.describe_topics("orders").partitions))
        ('orders',) 3

    Settings are Kafka's, dotted in `properties` or as keywords with underscores: bootstrap_servers,
    zookeeper_connect, or both. Use it in one thread at a time.

    A call takes one thing or many. For one thing it returns its result, or raises its KafkaError. For many it
    returns a dict, or raises AdminErrors, which has the errors and the results. Calls also raise ConfigError
    for wrong arguments, Unsupported if the cluster cannot do it, BrokerUnreachable, AuthenticationFailed.
    """

    def __init__(self, properties: Mapping[str, object] | None = None, **settings: object) -> None:
        calls = AdminCalls(AdminConfig.from_properties(merged(properties, settings)), ThreadDriver())
        self._calls, access = calls, calls._access
        self._forgotten = stop_if_forgotten(
            self,
            f"Admin of {calls._address}",
            lambda: completed(calls.close()),
            is_running=lambda: access.is_connected,
        )

    def __repr__(self) -> str:
        return repr(self._calls)

    # --- cluster

    describe_cluster = _blocking(AdminCalls.describe_cluster)

    # --- topics

    create_topics = _blocking(AdminCalls.create_topics)
    delete_topics = _blocking(AdminCalls.delete_topics)
    create_partitions = _blocking(AdminCalls.create_partitions)
    list_topics = _blocking(AdminCalls.list_topics)
    describe_topics = _blocking(AdminCalls.describe_topics)

    # --- settings

    describe_configs = _blocking(AdminCalls.describe_configs)
    alter_configs = _blocking(AdminCalls.alter_configs)
    list_config_resources = _blocking(AdminCalls.list_config_resources)

    # --- logs

    list_offsets = _blocking(AdminCalls.list_offsets)
    delete_records = _blocking(AdminCalls.delete_records)

    # --- groups

    list_groups = _blocking(AdminCalls.list_groups)
    describe_groups = _blocking(AdminCalls.describe_groups)
    groups_named = _blocking(AdminCalls.groups_named)
    delete_groups = _blocking(AdminCalls.delete_groups)
    group_offsets = _blocking(AdminCalls.group_offsets)
    alter_group_offsets = _blocking(AdminCalls.alter_group_offsets)
    reset_group_offsets = _blocking(AdminCalls.reset_group_offsets)
    delete_group_offsets = _blocking(AdminCalls.delete_group_offsets)
    share_group_offsets = _blocking(AdminCalls.share_group_offsets)
    alter_share_group_offsets = _blocking(AdminCalls.alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AdminCalls.delete_share_group_offsets)
    group_lag = _blocking(AdminCalls.group_lag)

    # --- transactions

    list_transactions = _blocking(AdminCalls.list_transactions)
    describe_transactions = _blocking(AdminCalls.describe_transactions)
    describe_producers = _blocking(AdminCalls.describe_producers)
    find_hanging_transactions = _blocking(AdminCalls.find_hanging_transactions)
    abort_transaction = _blocking(AdminCalls.abort_transaction)
    terminate_transaction = _blocking(AdminCalls.terminate_transaction)

    # --- ACLs

    create_acls = _blocking(AdminCalls.create_acls)
    describe_acls = _blocking(AdminCalls.describe_acls)
    delete_acls = _blocking(AdminCalls.delete_acls)

    # --- passwords

    describe_user_scram_credentials = _blocking(AdminCalls.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AdminCalls.alter_user_scram_credentials)

    # --- quotas

    describe_client_quotas = _blocking(AdminCalls.describe_client_quotas)
    alter_client_quotas = _blocking(AdminCalls.alter_client_quotas)

    # --- the end

    def close(self) -> None:
        """Close all connections. May be called twice."""
        self._forgotten.detach()
        completed(self._calls.close())
