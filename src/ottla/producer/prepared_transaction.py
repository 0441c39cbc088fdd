"""The identity of a transaction whose records are all stored and which another process will end. Pure."""

from __future__ import annotations

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """What `Producer.hand_over` returns and `TransactionEnder` takes.

    `is_implicit`: it uses the protocol of transaction.version 2, where an end gives the id another epoch.

    >>> from ottla.producer import PreparedTransaction
    >>> PreparedTransaction("billing-1", producer_id=4000, epoch=3, is_implicit=True).transactional_id
    'billing-1'
    """

    transactional_id: str
    producer_id: int
    epoch: int
    is_implicit: bool
