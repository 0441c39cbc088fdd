"""Enforces client quotas: what clients have used lately, and how long a client that used too much has to
wait.

The rules are Kafka's. A rate is measured over SAMPLES windows of WINDOW_MS, the last of which is under way.
Above its quota a client waits until the rate would be back at it. Of several quotas the most specific holds:

    user and client id · user and any client id · user · any user and client id · any user and any client id ·
    any user · client id · any client id

Clients that a quota of one user covers share it; a quota of any user is each user's own. Nothing here reads a
clock.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.broker.settings.quotas import CLIENT_ID, IP, USER, entity_of
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

KIND = "QUOTA"
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECTIONS, MUTATIONS = "connection_creation_rate", "controller_mutation_rate"
SAMPLES, WINDOW_MS = 11, 1000
"""Kafka's defaults of quota.window.num and quota.window.size.seconds."""
BOUNDED = {REQUEST, CONNECTIONS}
"""Quotas with a limit for the wait: one window."""
RATES_MAX = 10_000
"""How many clients' rates are kept; then all are forgotten, and clients start from 0 again."""

Owner = tuple[str, str]
"""The clients that share a quota: a user, a client id, or both; "" if not given."""


class SampledRate:
    """A rate per second over the last SAMPLES windows, as Kafka's metrics compute it."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[list[float]] = deque(maxlen=SAMPLES + 1)  # began, last used, sum

    def record(self, value: float, now_ms: float) -> None:
        """Add what was used."""
        if not self._samples or now_ms - self._samples[-1][0] >= WINDOW_MS:
            self._samples.append([now_ms, now_ms, 0.0])
        self._samples[-1][1] = now_ms
        self._samples[-1][2] += value

    def measured(self, now_ms: float) -> tuple[float, float]:
        """Return the rate, and the milliseconds over which it was measured."""
        samples = self._samples
        while samples and now_ms - samples[0][1] >= SAMPLES * WINDOW_MS:
            samples.popleft()
        elapsed_ms = now_ms - samples[0][0] if samples else 0.0
        whole = elapsed_ms // WINDOW_MS
        if whole < SAMPLES - 1:
            elapsed_ms += (SAMPLES - 1 - whole) * WINDOW_MS
        elapsed_ms = max(elapsed_ms, 1.0)
        return sum(sample[2] for sample in samples) / elapsed_ms * 1000, elapsed_ms

    def wait_ms(self, limit: float, now_ms: float) -> int:
        """Return how long a client has to wait until its rate is at the limit again; 0 if it need not."""
        rate, window_ms = self.measured(now_ms)
        return round((rate - limit) / limit * window_ms) if rate > limit else 0


class TokenBucket:
    """The changes of partitions that are left, counted as in Kafka: the last change may take more than is
    left.
    """

    __slots__ = ("_at_ms", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._at_ms = 0.0

    def left(self, limit: float, now_ms: float) -> float:
        """Return how many are left: at first those of all windows, then `limit` more each second."""
        earned = limit * (now_ms - self._at_ms) / 1000
        self._tokens, self._at_ms = min(limit * SAMPLES * WINDOW_MS / 1000, self._tokens + earned), now_ms
        return self._tokens

    def take(self, count: float) -> None:
        """Use some."""
        self._tokens -= count


class MutationQuota:
    """What one request may change (KIP-599). Without a quota, everything.

    An old client that cannot be refused (not `is_strict`) is served, and told to wait.
    """

    def __init__(
        self, bucket: TokenBucket | None, limit: float, now_ms: Callable[[], float], *, is_strict: bool
    ) -> None:
        self._bucket = bucket
        self._limit = limit
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.wait_ms = 0

    def spend(self, partitions: int) -> None:
        """Create or delete partitions. Raises KafkaError 89 if the quota was used up before."""
        if self._bucket is None:
            return
        left = self._bucket.left(self._limit, self._now_ms())
        if self._is_strict and left < 0:
            self.wait_ms = round(-left / self._limit * 1000)
            raise KafkaError(Code.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.take(partitions)
        if not self._is_strict:
            self.wait_ms = max(0, round((partitions - left) / self._limit * 1000))


class Applied(NamedTuple):
    """The quota that applies to a client, and the clients that share it."""

    owner: Owner
    limit: float


class QuotaLimits:
    """The quotas that are set. All brokers of a process share them; `changes` counts."""

    def __init__(self, kept: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
        self._kept = kept
        self.changes = 0
        self._limits: dict[str, dict[tuple[str | None, str | None], float]] = {}
        self._addresses: dict[str | None, float] = {}
        self.reload()

    def reload(self) -> None:
        """Read the quotas from the catalog again, after they were changed."""
        self.changes += 1
        self._limits, self._addresses = {}, {}
        for key, quotas in self._kept.get(KIND, {}).items():
            entity = entity_of(key)
            if IP in entity:
                if CONNECTIONS in quotas:
                    self._addresses[entity[IP]] = quotas[CONNECTIONS]
                continue
            # In an entity None is the default. Here "" is the default, and None means that the part is not
            # given.
            user, client_id = ((entity[kind] or "") if kind in entity else None for kind in (USER, CLIENT_ID))
            for name, limit in quotas.items():
                self._limits.setdefault(name, {})[user, client_id] = limit

    @property
    def has_clients(self) -> bool:
        """Whether there is a quota of a user or a client id."""
        return bool(self._limits)

    def is_set(self, name: str) -> bool:
        """Whether any client has this quota."""
        return bool(self._addresses) if name == CONNECTIONS else name in self._limits

    def of_address(self, address: str) -> float | None:
        """Return how many connections an address may open per second; None: no limit."""
        return self._addresses.get(address, self._addresses.get(None))

    def of_client(self, name: str, user: str, client_id: str) -> Applied | None:
        """Return the most specific quota that holds for a client."""
        limits = self._limits.get(name)
        if limits is None:
            return None
        both, of_user, of_client = (user, client_id), (user, ""), ("", client_id)
        levels: list[tuple[tuple[str | None, str | None], Owner]] = [
            (both, both),
            ((user, ""), both),
            ((user, None), of_user),
            (("", client_id), both),
            (("", ""), both),
            (("", None), of_user),
            ((None, client_id), of_client),
            ((None, ""), of_client),
        ]
        for entity, owner in levels:
            needs_client = entity[1] is not None
            if entity in limits and (client_id or not needs_client):
                return Applied(owner, limits[entity])
        return None


class ClientQuotas:
    """What the clients of one broker have used. Owned by the loop."""

    def __init__(self, limits: QuotaLimits) -> None:
        self.limits = limits
        self.throttled: Counter[str] = Counter()  # answers, and connections, by quota
        self.throttled_ms: Counter[str] = Counter()
        self._rates: dict[tuple[str, Owner], SampledRate] = {}
        self._buckets: dict[Owner, TokenBucket] = {}
        self._applied: dict[tuple[str, str, str], Applied | None] = {}
        self._seen_changes = 0

    def applied(self, name: str, user: str, client_id: str) -> Applied | None:
        """Return the quota that holds for a client, or None."""
        if self._seen_changes != self.limits.changes or len(self._applied) > RATES_MAX:
            self._seen_changes = self.limits.changes
            self._applied.clear()
        key = (name, user, client_id)
        if key not in self._applied:
            self._applied[key] = self.limits.of_client(*key)
        return self._applied[key]

    def record(self, name: str, quota: Applied, value: float, now_ms: float) -> int:
        """Count what a client has used, and return how many milliseconds it has to wait."""
        rate = self._rate(name, quota.owner)
        rate.record(value, now_ms)
        wait_ms = rate.wait_ms(quota.limit, now_ms)
        return min(wait_ms, WINDOW_MS) if name in BOUNDED else wait_ms

    def take_back(self, name: str, quota: Applied, value: float, now_ms: float) -> None:
        """Undo what was counted, because the client does not get it."""
        self._rate(name, quota.owner).record(-value, now_ms)

    def count(self, name: str, wait_ms: int) -> None:
        """Count a wait, for the metrics."""
        self.throttled[name] += 1
        self.throttled_ms[name] += wait_ms

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """Return how many bytes a client may fetch at once; more would have to wait in any case."""
        if not self.limits.is_set(FETCH):
            return None
        quota = self.applied(FETCH, user, client_id)
        return None if quota is None else int(quota.limit * (SAMPLES - 1) * WINDOW_MS / 1000)

    def mutations(
        self, user: str, client_id: str, now_ms: Callable[[], float], *, is_strict: bool
    ) -> MutationQuota:
        """Return what a client may create and delete now."""
        quota = self.applied(MUTATIONS, user, client_id) if self.limits.is_set(MUTATIONS) else None
        if quota is None:
            return MutationQuota(None, 0.0, now_ms, is_strict=is_strict)
        if len(self._buckets) >= RATES_MAX:
            self._buckets.clear()
        bucket = self._buckets.setdefault(quota.owner, TokenBucket())
        return MutationQuota(bucket, quota.limit, now_ms, is_strict=is_strict)

    def connected(self, address: str, now_ms: float) -> int:
        """Count a connection; return how long it has to wait before it is closed, or 0 if it may stay."""
        limit = self.limits.of_address(address)
        if limit is None:
            return 0
        quota = Applied((address, ""), limit)
        wait_ms = self.record(CONNECTIONS, quota, 1.0, now_ms)
        if wait_ms > 0:
            self.take_back(CONNECTIONS, quota, 1.0, now_ms)
            self.count(CONNECTIONS, wait_ms)
        return wait_ms

    def _rate(self, name: str, owner: Owner) -> SampledRate:
        rate = self._rates.get((name, owner))
        if rate is None:
            if len(self._rates) >= RATES_MAX:
                self._rates.clear()
            rate = self._rates[name, owner] = SampledRate()
        return rate
