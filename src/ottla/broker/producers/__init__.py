"""Idempotent producers of a partition: what is known of them (`states`), and what survives a restart."""

from ottla.broker.producers.restart import load, save, save_if_rolled
from ottla.broker.producers.states import Duplicate, ProducerStates

__all__ = ["Duplicate", "ProducerStates", "load", "save", "save_if_rolled"]
