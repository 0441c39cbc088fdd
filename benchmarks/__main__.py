"""The command line: choose benchmarks, run them, print a table or JSON lines.

A missed target is reported and does not change the exit code: a benchmark tells, the tests decide.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from dataclasses import asdict
from pathlib import Path

import benchmarks
from benchmarks import harness
from benchmarks.harness import FULL, QUICK, REGISTRY, Comparison, Result, run_all
from benchmarks.saved_runs import RUNS, save
from ottla import kernels

_NAME_WIDTH = 40
_TIMES = "\N{MULTIPLICATION SIGN}"


def main(arguments: list[str] | None = None) -> int:
    """Run what the arguments name; 2 if they name something that does not exist."""
    # What is measured is steady work; `startup` measures the way there.
    kernels.use(os.environ.setdefault("OTTLA_KERNELS", "compiled"))
    for module in pkgutil.iter_modules(benchmarks.__path__):
        if module.name != "__main__":
            importlib.import_module(f"benchmarks.{module.name}")
    options = _parser().parse_args(arguments)
    unknown = [name for name in options.names if not _family(name)]
    if unknown:
        print(
            f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(REGISTRY)}", file=sys.stderr
        )
        return 2
    names = [member for name in options.names for member in _family(name)] or list(REGISTRY)
    print_result = _print_json if options.json else _print_table
    command = " ".join(["python -m benchmarks", *options.names, *(["--quick"] if options.quick else [])])
    for result in run_all(names, QUICK if options.quick else FULL):
        print_result(result)
        if options.save:
            save(result, command, Path(options.save))
    return 0


def _family(name: str) -> list[str]:
    """The benchmark of that name, or all whose names go on from it: "broker" is every "broker-..."."""
    return [name] if name in REGISTRY else [one for one in REGISTRY if one.startswith(f"{name}-")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=harness.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"all, or some of: {', '.join(REGISTRY)}")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller rounds")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--save", nargs="?", const=str(RUNS), metavar="FILE", help="keep results, by default for the charts"
    )
    return parser


def _print_json(result: Result) -> None:
    line = asdict(result)
    for peer in line["peers"]:
        if not peer["note"]:
            del peer["note"]
    print(json.dumps(line), flush=True)


def _print_table(result: Result) -> None:
    print(f"{result.name}  [{result.unit}]")
    print(f"  {'ottla':{_NAME_WIDTH}}{_scaled(result.ours):>10}")
    for peer in result.peers:
        print(f"  {f'{peer.name} {peer.version}':{_NAME_WIDTH}}{_outcome(peer)}".rstrip())
    print(flush=True)


def _outcome(peer: Comparison) -> str:
    if peer.value is None or peer.ratio is None:
        return f"{'-':>10}   {peer.note}"
    text = f"{_scaled(peer.value):>10}{peer.ratio:>9.3g}{_TIMES}"
    if peer.target is not None:
        text += f"   ≥ {peer.target:g}{_TIMES} : {peer.ratio:.4g} {'ok' if peer.is_met else 'MISSED'}"
    return f"{text}   {peer.note}"


def _scaled(value: float) -> str:
    for factor, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            return f"{value / factor:.3g}{suffix}"
    return f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
