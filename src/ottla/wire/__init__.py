"""Kafka's wire protocol without input or output: bytes to values and back.

`schema` is the notation and its functions `encode` and `decode`; `api` holds one declared API per
file; `registry` finds an API by key; `headers` is what precedes a message; `frames` cuts a byte stream
into messages. Record sets pass through as opaque buffers.
"""
