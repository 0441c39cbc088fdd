"""Every bug can be planted, and two of them are; `make prove` plants them all."""

from __future__ import annotations

import pytest

from tests.proof.planted_bugs import ROOT, is_caught
from tests.proof.plants import PLANTS, SOURCE, Plant

COUNT_MIN = 40
SAMPLE = ("retention deletes one segment too many", "replaced producer not fenced")


def test_there_are_many() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= COUNT_MIN


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_plant_has_its_place(plant: Plant) -> None:
    """Its text stands once in the file, what it becomes is Python, and its test exists."""
    text = (SOURCE / plant.file).read_text()
    assert text.count(plant.old) == 1
    compile(text.replace(plant.old, plant.new), plant.file, "exec")
    path, _, name = plant.caught_by.partition("::")
    assert (ROOT / path).exists()
    assert not name or f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()


@pytest.mark.parametrize(
    "plant", [plant for plant in PLANTS if plant.name in SAMPLE], ids=lambda plant: plant.name
)
def test_a_planted_bug_is_caught(plant: Plant) -> None:
    assert is_caught(plant)
