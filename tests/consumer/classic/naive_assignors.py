"""Kafka's assignors written down as its documentation words them: slow, obvious, and independent of ours."""

from __future__ import annotations

Thread = tuple[str, int]


def text(thread: Thread) -> str:
    return f"{thread[0]}-{thread[1]}"


def range_assignment(
    threads: dict[str, set[Thread]], partitions: dict[str, set[int]]
) -> dict[tuple[str, int], Thread]:
    """The first `len(P) % len(C)` threads get one partition more than the others."""
    found = {}
    for topic in partitions:
        left = sorted(partitions[topic])
        order = sorted(threads.get(topic, set()), key=text)
        for position in range(len(order)):
            count = len(partitions[topic]) // len(order)
            if position < len(partitions[topic]) % len(order):
                count += 1
            for _ in range(count):
                found[topic, left.pop(0)] = order[position]
    return found


def java_hash(value: str) -> int:
    total = 0
    for character in value:
        total = (total * 31 + ord(character)) % 2**32
    return total - 2**32 if total >= 2**31 else total


def round_robin_assignment(
    threads: dict[str, set[Thread]], partitions: dict[str, set[int]], form: str
) -> dict[tuple[str, int], Thread] | None:
    """`form` puts a partition into the text that is hashed. None where 0.8.2's rule refuses the group."""
    everybody: set[Thread] = set()
    for some in threads.values():
        everybody |= some
    order = sorted(everybody, key=text)
    places = [(topic, partition) for topic in sorted(partitions) for partition in sorted(partitions[topic])]
    places.sort(key=lambda place: java_hash(form.format(*place)))
    found = {}
    turn = 0
    for topic, partition in places:
        if not threads.get(topic):
            continue
        while order[turn % len(order)] not in threads[topic]:
            turn += 1
        found[topic, partition] = order[turn % len(order)]
        turn += 1
    return found


def is_uniform(threads: dict[str, set[Thread]]) -> bool:
    return len({frozenset(some) for some in threads.values()}) <= 1
