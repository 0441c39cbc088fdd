"""One thread a stream; the first error stops all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ottla.classic.stream import KafkaStream


def run_streams(
    function: Callable[[KafkaStream], object], streams: Sequence[KafkaStream], stop: Callable[[], None]
) -> None:
    """Call the function with each stream until all have returned; raise the first error."""
    errors: list[BaseException] = []
    failed = threading.Event()

    def work(stream: KafkaStream) -> None:
        try:
            function(stream)
        except BaseException as error:  # noqa: BLE001  (raised in the caller's thread)
            errors.append(error)
            failed.set()

    def guard() -> None:
        failed.wait()
        if errors:
            stop()

    threads = [
        threading.Thread(target=work, args=(stream,), name=f"stream-{number}")
        for number, stream in enumerate(streams)
    ]
    guardian = threading.Thread(target=guard, name="stream-guard")
    for thread in (*threads, guardian):
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stop()
        raise
    finally:
        for thread in threads:
            thread.join()
        failed.set()
        guardian.join()
    if errors:
        raise errors[0]
