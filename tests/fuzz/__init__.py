"""Hostile inputs by the million: ``python -m tests.fuzz``.

    mutations   what is done to bytes
    sets        record sets as structures, so that they can be damaged behind their checksums
    guarded     memory that ends at a page nobody may touch
    targets     what is fed: messages, record sets, connections; each says what must hold
    harness     the loop: seeds, time and memory bounds, counts, replay

An input is one string of bytes that says everything (which target, and its first bytes which message,
version or options), so that a failure is replayed by ``--only TARGET --replay HEX``.
"""
