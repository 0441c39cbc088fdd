"""Idempotent producers of a partition: their states, their ids, and what survives a restart."""

from ottla.broker.producer_state.producer_restart import load, save, save_if_rolled
from ottla.broker.producer_state.producer_states import Duplicate, ProducerStates

__all__ = ["Duplicate", "ProducerStates", "load", "save", "save_if_rolled"]
