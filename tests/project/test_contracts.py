"""The import contracts in pyproject.toml hold, and each of them fails when somebody breaks it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import api
from importlinter.configuration import configure
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

ROOT = Path(__file__).parents[2]
KINDS = {"forbidden": ForbiddenContract, "layers": LayersContract}

BREACHES = {
    "upwards": ("ottla.log.segment", "ottla.broker.node", "layers"),
    "sideways": ("ottla.broker.node", "ottla.client.retry", "layers"),
    "a package that no layer lists": ("ottla.new_package", "ottla.model.errors", "layers"),
    "the broker used by a client": ("ottla.producer.producer", "ottla.broker.cluster", "the broker"),
    "a clock in a pure module": ("ottla.records.reader", "time", "pure"),
    "a thread behind a pure module": ("ottla.zookeeper.session", "threading", "pure"),
    "arrays in the protocol": ("ottla.wire.frames", "numpy", "arrays"),
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    configure()
    return grimp.build_graph("ottla", include_external_packages=True, cache_dir=None)


def broken(graph: grimp.ImportGraph) -> list[str]:
    """Names of the contracts that do not hold."""
    configuration = api.read_configuration(str(ROOT / "pyproject.toml"))
    contracts: list[dict[str, Any]] = configuration["contracts_options"]
    return [
        options["name"]
        for options in contracts
        if not KINDS[options["type"]](options["name"], configuration["session_options"], options)
        .check(deepcopy(graph), verbose=False)
        .kept
    ]


def test_all_contracts_hold(graph: grimp.ImportGraph) -> None:
    assert broken(graph) == []


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_noticed(graph: grimp.ImportGraph, breach: str) -> None:
    importer, imported, contract = BREACHES[breach]
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    assert contract in " ".join(broken(changed))
