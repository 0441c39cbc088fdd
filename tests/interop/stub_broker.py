"""A broker of one topic with one partition, for other people's clients: our server side of the wire on a real
socket, and nothing behind it but a list of batches.

    with StubBroker() as broker:
        broker.load(batches)          # to be fetched
        ... bootstrap.servers = broker.address ...
        broker.produced               # record sets as they came in

A thread accepts and each connection has its own; leaving ends and joins them all, and raises what
went wrong in any of them.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.wire.api import (
    api_versions,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)
from ottla.wire.schema import Response
from ottla.wire.server_connection import ClientDisconnected, ReceivedRequest, ServedApis, ServerConnection
from ottla.wire.version_range import VersionRange
from tests.interop.broker_versions import NEW
from tests.interop.rows import entries, last_offset_of, magic_of

TOPIC = "interop"
TOPIC_ID = bytes(range(16))
NODE_ID = 1
PRODUCER_ID = 4_000_000_000
JOIN_SECONDS = 10


class StubBroker:
    """Serves `versions` of seven APIs. Start and end it with a `with` statement."""

    def __init__(self, versions: Mapping[int, VersionRange] = NEW) -> None:
        self.produced: list[bytes] = []
        self.calls: list[tuple[str, int]] = []
        self._served = ServedApis(versions)
        self._log: list[bytes] = []
        self._next_offset = 0
        self._failures: list[Exception] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._host, self._port = self._listener.getsockname()
        self._peers: dict[threading.Thread, socket.socket] = {}
        self._acceptor = threading.Thread(target=self._accept, name="stub-acceptor")
        self._handlers: dict[type, Callable[[ReceivedRequest], Response]] = {
            api_versions.ApiVersionsRequest: self._api_versions,
            metadata.MetadataRequest: self._metadata,
            produce.ProduceRequest: self._produce,
            list_offsets.ListOffsetsRequest: self._list_offsets,
            fetch.FetchRequest: self._fetch,
            init_producer_id.InitProducerIdRequest: self._init_producer_id,
            find_coordinator.FindCoordinatorRequest: self._find_coordinator,
        }

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def __enter__(self) -> StubBroker:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all threads and sockets; raises the first failure of any."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._acceptor.join(JOIN_SECONDS)
        self._listener.close()
        for thread, peer in self._peers.items():
            with suppress(OSError):  # the client was faster
                peer.shutdown(socket.SHUT_RDWR)
            thread.join(JOIN_SECONDS)
        alive = [thread.name for thread in (self._acceptor, *self._peers) if thread.is_alive()]
        if alive:
            raise AssertionError(f"still running: {alive}")
        if self._failures:
            raise self._failures[0]

    def load(self, record_sets: Iterable[bytes | memoryview]) -> None:
        """Put batches into the log as they are; they must carry their offsets."""
        with self._changed:
            for data in record_sets:
                self._log += [bytes(entry) for entry in entries(data)]
            self._next_offset = last_offset_of(self._log[-1]) + 1
            self._changed.notify_all()

    # ---- sockets

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(peer,), name="stub-connection")
            self._peers[thread] = peer
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        connection = ServerConnection(served=self._served)
        with peer:
            try:
                while not isinstance(event := connection.next_event(), ClientDisconnected):
                    if isinstance(event, ReceivedRequest):
                        self.calls.append((event.api.name, event.version))
                        connection.respond(event, self._handlers[type(event.message)](event))
                    peer.sendall(b"".join(connection.take_output()))
                    if event is None:
                        count = peer.recv_into(connection.get_buffer())
                        connection.received(count) if count else connection.eof()
            except ConnectionError:
                pass  # clients go as they like
            except Exception as error:  # noqa: BLE001  (raised when the broker ends)
                if not (isinstance(error, RemoteProtocolError) and "served here" in str(error)):
                    self._failures.append(error)

    # ---- APIs

    def _api_versions(self, _: ReceivedRequest) -> Response:
        rows = [
            api_versions.ApiVersion(api_key=key, min_version=served.oldest, max_version=served.newest)
            for key, served in self._served.ranges.items()
        ]
        return api_versions.ApiVersionsResponse(api_keys=rows)

    def _metadata(self, _: ReceivedRequest) -> Response:
        partition = metadata.MetadataPartitionResponse(
            leader_id=NODE_ID, replica_nodes=[NODE_ID], isr_nodes=[NODE_ID]
        )
        topic = metadata.MetadataTopicResponse(name=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        broker = metadata.MetadataBroker(node_id=NODE_ID, host=self._host, port=self._port)
        return metadata.MetadataResponse(brokers=[broker], controller_id=NODE_ID, topics=[topic])

    def _init_producer_id(self, _: ReceivedRequest) -> Response:
        return init_producer_id.InitProducerIdResponse(producer_id=PRODUCER_ID)

    def _find_coordinator(self, _: ReceivedRequest) -> Response:
        return find_coordinator.FindCoordinatorResponse(error_code=Code.COORDINATOR_NOT_AVAILABLE)

    def _produce(self, call: ReceivedRequest) -> Response:
        records = call.message.topic_data[0].partition_data[0].records  # type: ignore[attr-defined]
        with self._changed:
            self.produced.append(bytes(records))
            base_offset = self._next_offset
            for entry in map(bytearray, entries(records)):
                # A wrapper of an old format gets one offset only; this is no real broker.
                struct.pack_into(">q", entry, 0, self._next_offset)
                self._next_offset = last_offset_of(entry) + 1
                if magic_of(entry) == 2:
                    struct.pack_into(">i", entry, 12, 0)
                self._log.append(bytes(entry))
            self._changed.notify_all()
        partition = produce.ProducePartitionResponse(base_offset=base_offset)
        topic = produce.ProduceTopicResponse(name=TOPIC, topic_id=TOPIC_ID, partition_responses=[partition])
        return produce.ProduceResponse(responses=[topic])

    def _list_offsets(self, call: ReceivedRequest) -> Response:
        offset = self._next_offset if call.message.topics[0].partitions[0].timestamp == -1 else 0  # type: ignore[attr-defined]
        partition = list_offsets.ListOffsetsPartitionResponse()
        if call.version == 0:
            partition.old_style_offsets = [offset]
        else:
            partition.offset = offset
        topic = list_offsets.ListOffsetsTopicResponse(name=TOPIC, partitions=[partition])
        return list_offsets.ListOffsetsResponse(topics=[topic])

    def _fetch(self, call: ReceivedRequest) -> Response:
        asked = call.message.topics[0].partitions[0]  # type: ignore[attr-defined]
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._next_offset > asked.fetch_offset,
                call.message.max_wait_ms / 1000,  # type: ignore[attr-defined]
            )
            found = [entry for entry in self._log if last_offset_of(entry) >= asked.fetch_offset]
            partition = fetch.FetchPartitionResponse(
                error_code=Code.OFFSET_OUT_OF_RANGE if asked.fetch_offset > self._next_offset else Code.NONE,
                high_watermark=self._next_offset,
                last_stable_offset=self._next_offset,
                log_start_offset=0,
                aborted_transactions=[],
                records=b"".join(found),
            )
        topic = fetch.FetchTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        return fetch.FetchResponse(responses=[topic])
