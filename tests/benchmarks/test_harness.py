"""The benchmark harness: what a ratio means, what is shown, what a wrong name does. Nothing is timed here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import harness
from benchmarks.harness import FULL, QUICK, Better, Case, Effort, Peer, rate, run


def constant(value: float) -> harness.Measure:
    return lambda: value


def case(better: Better = Better.MORE) -> Case:
    peers = [
        Peer("met", "1.0", constant(2.0), target=4),
        Peer("missed", "1.0", constant(3.0), target=4),
        Peer("absent", note="not installed", target=4),
    ]
    return Case("a case", "things/s", constant(8.0), peers, rounds=2, better=better)


def test_a_ratio_above_one_means_that_ours_is_better() -> None:
    more, less = run(case()), run(case(Better.LESS))
    assert [peer.ratio for peer in more.peers] == [4.0, pytest.approx(8 / 3), None]
    assert [peer.ratio for peer in less.peers] == [0.25, 3 / 8, None]
    assert [peer.is_met for peer in more.peers] == [True, False, None]


def test_contenders_take_turns_and_the_best_round_counts() -> None:
    order: list[str] = []
    values = {"ours": iter([9.0, 1.0, 5.0, 3.0]), "peer": iter([9.0, 2.0, 1.0, 1.0])}

    def measure(name: str) -> harness.Measure:
        def step() -> float:
            order.append(name)
            return next(values[name])

        return step

    result = run(Case("turns", "s", measure("ours"), [Peer("peer", "1", measure("peer"))], rounds=3))
    assert order == ["ours", "peer"] * 4
    assert (result.ours, result.peers[0].value) == (5.0, 2.0)


def test_a_case_that_is_not_warmed_counts_from_the_first_round() -> None:
    values = iter([4.0, 2.0])
    result = run(Case("cold", "s", lambda: next(values), [], rounds=2, better=Better.LESS, is_warmed=False))
    assert (result.ours, result.samples) == (2.0, [4.0, 2.0])


def test_a_rate_is_units_by_cpu_time() -> None:
    assert rate(lambda: sum(range(100_000)), 1000)() > 0


def test_quick_is_quicker() -> None:
    assert QUICK.rounds < FULL.rounds
    assert QUICK.fast_mb < FULL.fast_mb


@pytest.fixture
def only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(_: Effort) -> Iterator[Case]:
        yield case()

    monkeypatch.setattr(command.pkgutil, "iter_modules", lambda _: [])  # type: ignore[attr-defined]
    for name in list(harness.REGISTRY):
        monkeypatch.delitem(harness.REGISTRY, name)
    monkeypatch.setitem(harness.REGISTRY, "one", one)


@pytest.mark.usefixtures("only_one")
def test_the_table_says_what_is_met_missed_and_absent(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a case  [things/s]"
    assert "≥ 4\N{MULTIPLICATION SIGN} : 4 ok" in lines[2]
    assert "≥ 4\N{MULTIPLICATION SIGN} : 2.667 MISSED" in lines[3]
    assert lines[4].endswith("not installed")


@pytest.mark.usefixtures("only_one")
def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["one", "--json", "--quick"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)
    assert {key: result[key] for key in ("name", "unit", "ours")} == {
        "name": "a case",
        "unit": "things/s",
        "ours": 8.0,
    }
    assert result["peers"][0] == {
        "name": "met",
        "version": "1.0",
        "value": 2.0,
        "ratio": 4.0,
        "target": 4,
        "samples": [2.0, 2.0],
    }
    assert result["samples"] == [8.0, 8.0]
    assert result["peers"][2]["value"] is None
    assert result["peers"][2]["note"] == "not installed"


@pytest.mark.usefixtures("only_one")
def test_a_saved_result_replaces_the_last_one_of_its_name_and_unit(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    others = [{"name": "a case", "unit": "MB", "ours": 2}, {"name": "another", "unit": "s", "ours": 2}]
    last = {"name": "a case", "unit": "things/s", "ours": 1}
    file.write_text("".join(f"{json.dumps(line)}\n" for line in (last, *others)))
    assert command.main(["one", "--quick", "--save", str(file)]) == 0
    first, *rest = map(json.loads, file.read_text().splitlines())
    assert (first["name"], first["ours"], first["better"]) == ("a case", 8.0, "more")
    assert first["run"]["command"] == "python -m benchmarks one --quick"
    assert "samples" not in first["peers"][0]
    assert rest == others


@pytest.mark.usefixtures("only_one")
def test_a_wrong_name_lists_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["two"]) == 2
    assert capsys.readouterr().err == "no benchmark is called two; there are: one\n"


@pytest.mark.usefixtures("only_one")
def test_a_name_stands_for_all_that_go_on_from_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(harness.REGISTRY, "one-more", harness.REGISTRY["one"])
    monkeypatch.setitem(harness.REGISTRY, "two-a", harness.REGISTRY["one"])
    monkeypatch.setitem(harness.REGISTRY, "two-b", harness.REGISTRY["one"])
    assert command.main(["two", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert command.main(["one", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_two_benchmarks_cannot_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(harness.REGISTRY, "taken", lambda _: [])
    with pytest.raises(ValueError, match="two benchmarks are called 'taken'"):
        harness.benchmark("taken")(lambda _: [])
