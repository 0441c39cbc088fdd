"""Member: one member of a group as a state machine, without a socket, a thread or a clock.

Its driver, which owns it, does three things in turns:

    ask = member.next(now_ms)                    # a request for the coordinator, if one is due
    member.answered(response, now_ms)            # or member.unanswered(now_ms)
    member.take_demand()                         # what the application shall do; then member.done()

and tells it how many partitions topics have (`counted`): the leader of a group needs that to assign.
`member_state` has the theory and the tables, `leadership` what a leader does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from logging import INFO, WARNING

from ottla.grouped.assignors import Remembered
from ottla.grouped.config import MemberConfig
from ottla.grouped.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from ottla.grouped.demands import NOTHING, Demand, Notice, Places
from ottla.grouped.leadership import Leadership
from ottla.grouped.member_requests import Ask, GroupRequests
from ottla.grouped.member_state import (
    BEATING,
    ENDS,
    MEMBERSHIP_ERRORS,
    MOVES,
    PLANNED,
    REMEDIES,
    Event,
    Reaction,
    State,
    reaction_to,
)
from ottla.grouped.member_times import MemberTimes
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.offsets.coordinator_messages import Membership
from ottla.wire.api.heartbeat import HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.schema import Response


class Member:
    """`topics` None: it joins once they are known. `pause_ms` tells how long to wait after so many failures
    in a row."""

    def __init__(
        self, config: MemberConfig, topics: Iterable[str] | None, pause_ms: Callable[[int], float]
    ) -> None:
        self.config = config
        self.state = State.JOINING
        self.held = NOTHING
        self.demand: Demand | None = None
        self.failure: Exception | None = None
        self.is_coordinator_doubtful = False
        self.notices: list[Notice] = []
        self._requests = GroupRequests(
            config.group_id, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._times = MemberTimes(config, pause_ms)
        self._topics = frozenset(topics or ())
        self._are_topics_known = topics is not None
        self._membership = Membership(instance_id=config.instance_id)
        self._protocol = ""
        self._remembered = Remembered()
        self._lead: Leadership | None = None
        self._plan: dict[str, bytes] = {}
        self._in_flight: Ask | None = None
        self._rejoin_reason = ""
        self._is_evicted = False

    @property
    def membership(self) -> Membership:
        """In whose name offsets are committed; generation -1 while it belongs to none."""
        return self._membership

    @property
    def topics_led(self) -> frozenset[str] | None:
        """Whose partition counts a leader has to know: those that anybody wants. None if it does not lead."""
        return self._lead.topics if self._lead is not None else None

    @property
    def assigns(self) -> bool:
        """Whether the group waits for this member to be told partition counts."""
        return self.state is State.ASSIGNING

    # --- the application

    def polled(self, now_ms: float) -> None:
        """The application asks for records, so it is alive."""
        self._times.polled(now_ms)

    @property
    def is_polled(self) -> bool:
        """Whether it does so; not before the first time, nor while it is too slow."""
        return self._times.is_polled

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want other topics from now on."""
        wanted = frozenset(topics)
        self._are_topics_known = True
        if wanted != self._topics:
            self._topics = wanted
            self._wish_to_rejoin("its subscription changed")

    def take_demand(self) -> Demand | None:
        """What the application does now, if anything. What it has not begun is out of date once the member
        is out of the group: then all is lost instead."""
        if self._is_evicted and self.demand is not None:
            self.demand = None
            self._proceed()
        return self.demand

    def done(self) -> None:
        """The application has done what was demanded."""
        demand, self.demand = self.demand, None
        assert demand is not None
        self.held = (self.held - demand.give_back) | demand.take
        if self.state not in ENDS:
            self._proceed()

    def _proceed(self) -> None:
        """Go on behind a demand."""
        if self._is_evicted:
            if self.held:
                self._demand(give_back=self.held, is_lost=True)
                return
            self._is_evicted = False
        self._move(Event.DONE)
        if self.state is State.STABLE and self._rejoin_reason:
            self._rebalance(self._rejoin_reason)

    def _demand(self, *, give_back: Places = NOTHING, take: Places = NOTHING, is_lost: bool = False) -> None:
        self.demand = Demand(give_back, take, is_lost, self._membership)

    # --- the coordinator

    def next(self, now_ms: float) -> Ask | None:
        """The request that is due, which is on its way from now on; one at a time."""
        if self._in_flight is not None or self.state in ENDS:
            return None
        ask = self._overdue(now_ms)
        if ask is None and now_ms >= self._times.retry_at_ms:
            ask = self._due(now_ms)
        self._in_flight = ask
        return ask

    def _due(self, now_ms: float) -> Ask | None:
        if self._may_join:
            self._rejoin_reason = ""
            return self._requests.join(self._membership, self._offered())
        if self.state is State.SYNCING:
            return self._requests.sync(self._membership, self._protocol, self._plan)
        self._look_after_withheld(now_ms)
        if self._beats and self._times.is_heartbeat_due(now_ms):
            return self._requests.heartbeat(self._membership, self._times.heartbeat_patience_ms(now_ms))
        return None

    def next_at_ms(self) -> float | None:
        """When `next` has something, as far as is known now; None if only an event can tell."""
        if self._in_flight is not None:
            return None
        if self.state is State.SYNCING or self._may_join:
            return self._times.retry_at_ms
        if self.assigns:
            return self._times.plan_by_ms
        return self._times.beat_at_ms if self._beats else None

    @property
    def _may_join(self) -> bool:
        return self.state is State.JOINING and self._times.is_polled and self._are_topics_known

    @property
    def _beats(self) -> bool:
        return self.state in BEATING and self._membership.generation != NO_GENERATION

    def answered(self, response: Response, now_ms: float) -> None:
        """The answer to the request that was on its way."""
        ask, self._in_flight = self._in_flight, None
        assert ask is not None
        if self.state in ENDS:
            return
        code = getattr(response, "error_code", Code.NONE)
        if isinstance(response, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse):
            if code:
                member_id = response.member_id if isinstance(response, JoinGroupResponse) else ""
                self._refused(code, now_ms, member_id=member_id)
                return
            self._times.answered(now_ms)
        try:
            self._accepted(response)
        except RemoteProtocolError as error:
            self.fail(error)

    def _accepted(self, response: Response) -> None:
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(decode_assignment(response.assignment))

    def unanswered(self, now_ms: float) -> None:
        """The connection broke, or no answer came: nobody knows what became of the request."""
        self._in_flight = None
        self.is_coordinator_doubtful = True
        if self.state is State.SYNCING:
            self._move(Event.SENT_BACK)
        self._times.failed(now_ms)

    def refused_commit(self, code: int, membership: Membership, now_ms: float) -> None:
        """A commit in this member's name may have learned what the next heartbeat would tell."""
        if membership == self._membership and self.state in BEATING and code in MEMBERSHIP_ERRORS:
            self._refused(code, now_ms)

    def _refused(self, code: int, now_ms: float, member_id: str = "") -> None:
        reaction = reaction_to(code)
        if reaction is Reaction.FAIL:
            remedy = REMEDIES.get(Code.of(code))
            context = f"group {self.config.group_id!r}" + (f" ({remedy})" if remedy else "")
            self.fail(KafkaError(code, context))
        elif reaction is Reaction.TAKE_ID:
            self._membership = self._membership._replace(member_id=member_id)
        elif reaction is Reaction.REJOIN:
            self._sent_back(now_ms)
        elif reaction in {Reaction.FORGET_GENERATION, Reaction.FORGET_MEMBER}:
            self._evict(reaction, f"{Code.of(code).name}: {Code.of(code).text}", now_ms)
        else:
            self.is_coordinator_doubtful |= reaction is Reaction.FIND_COORDINATOR
            if self.state is State.SYNCING:
                self._move(Event.SENT_BACK)
            self._times.failed(now_ms)

    def _sent_back(self, now_ms: float) -> None:
        if self.state is State.SYNCING:
            self._move(Event.SENT_BACK)
        elif self.state is State.JOINING:
            self._times.failed(now_ms)
        else:
            self._wish_to_rejoin("the group rebalances")

    # --- joining

    def _offered(self) -> dict[str, bytes]:
        """What each assignor is told. A member that gave everything back owns nothing."""
        remembered = self._remembered
        return {
            assignor.name: encode_subscription(
                Subscription(
                    tuple(self._topics),
                    assignor.user_data(remembered),
                    tuple(self.held),
                    self._membership.generation,
                    self.config.rack,
                )
            )
            for assignor in self.config.assignors
        }

    def _joined(self, response: JoinGroupResponse) -> None:
        self._membership = self._membership._replace(
            member_id=response.member_id, generation=response.generation_id
        )
        self._protocol = response.protocol_name or ""
        self._lead = Leadership.of(response, self.config.assignors)
        self._plan = {}
        has_to_plan = self._lead is not None and not response.skip_assignment
        self._move(Event.LED if has_to_plan else Event.JOINED)

    def is_plan_late(self, now_ms: float) -> bool:
        """Whether the counts that a leader waits for have to do without a broker: its session would end."""
        return self.assigns and now_ms >= self._times.plan_by_ms

    def counted(self, topics: frozenset[str], partition_counts: Mapping[str, int]) -> None:
        """So many partitions these topics have now; one without a count does not exist. What was asked in an
        earlier generation, for other topics, is of no use."""
        lead = self._lead
        if lead is None or lead.topics != topics:
            return
        if self.assigns:
            self._plan = lead.plan(partition_counts)
            self._move(Event.PLANNED)
        elif self.state in PLANNED and lead.counts != partition_counts:
            self._wish_to_rejoin("topics or partitions were added or removed")

    def _synced(self, assignment: Assignment) -> None:
        given = frozenset(one for one in assignment.partitions if one.topic in self._topics)
        if len(given) < len(set(assignment.partitions)):
            self._rejoin_reason = "it was given topics that it does not want"
        self._remembered = Remembered(tuple(sorted(given)), self._membership.generation)
        give_back = self.held - given
        if give_back:
            self._rejoin_reason = f"it gave {len(give_back)} partitions back for others to take"
        self._times.synced()
        self._move(Event.SYNCED)
        self._demand(give_back=give_back, take=given - self.held)

    def _look_after_withheld(self, now_ms: float) -> None:
        """Who gives partitions up joins again, and the rest follows. But a static member that dies before
        it does, and comes back, joins without a new generation: then nobody would ever get them."""
        lead = self._lead
        if lead is not None and lead.is_short and self._times.has_lasted_a_session(now_ms):
            lead.is_short = False
            self._wish_to_rejoin("partitions were withheld, and nobody came to share them out")

    # --- leaving a generation

    def _wish_to_rejoin(self, reason: str) -> None:
        if self.state is State.STABLE:
            self._rebalance(reason)
        elif self.state is not State.REVOKING:
            self._rejoin_reason = reason

    def _rebalance(self, reason: str) -> None:
        self._rejoin_reason = ""
        self.notices.append(Notice(INFO, f"joins again: {reason}"))
        self._move(Event.REBALANCE)
        keeps = self.config.is_cooperative
        give_back = frozenset(place for place in self.held if not (keeps and place.topic in self._topics))
        if give_back:
            self._demand(give_back=give_back)
        else:
            self._move(Event.DONE)

    def _evict(self, reaction: Reaction, reason: str, now_ms: float) -> None:
        self.notices.append(Notice(WARNING, f"is out of the group: {reason}"))
        is_new = reaction is Reaction.FORGET_MEMBER
        member_id = "" if is_new else self._membership.member_id
        self._membership = self._membership._replace(member_id=member_id, generation=NO_GENERATION)
        self._rejoin_reason = ""
        self._lead = None
        self._times.retry_at_ms = now_ms
        self._is_evicted = True
        self._move(Event.EVICTED)
        if self.demand is None:  # else the application is at it: what it holds afterwards is lost
            self._proceed()

    def _overdue(self, now_ms: float) -> Ask | None:
        """An application that does not poll leaves the group, so that others get its partitions."""
        took_ms = self._times.too_slow_ms(now_ms) if self._beats else 0.0
        if not took_ms:
            return None
        leaver = self._membership
        self._evict(
            Reaction.FORGET_MEMBER,
            f"{took_ms:.0f} ms since the last poll, and max.poll.interval.ms is "
            f"{self.config.max_poll_interval_ms}: process less between two polls, or raise it",
            now_ms,
        )
        # A static member stays in the group until its session ends.
        return None if leaver.instance_id is not None else self._requests.leave(leaver)

    def depart(self) -> Ask | None:
        """Leave for good; the request to send, if there is somebody to tell."""
        leaver = self._membership
        self._move(Event.LEAVE)
        self._membership = self._membership._replace(generation=NO_GENERATION)
        return self._requests.leave(leaver) if leaver.member_id and leaver.instance_id is None else None

    def fail(self, error: Exception) -> None:
        """Nothing more can be done: the application is told, and may leave."""
        if self.state in ENDS:
            return
        self.failure = error
        self._membership = self._membership._replace(generation=NO_GENERATION)
        self._move(Event.REFUSED)

    def _move(self, event: Event) -> None:
        self.state = MOVES[self.state, event]
