"""Consumer groups (KIP-848), whose broker assigns.

Start reading at `member` (theory of operation), then `heartbeat` and `subscribing`.
"""
