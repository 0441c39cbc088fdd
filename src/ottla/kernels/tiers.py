"""Which kernels serve: the NumPy ones from the first call, the compiled ones as soon as they pay.

Loading Numba costs half a second and 140 MB, compiling costs seconds. A program that sends three records
should pay neither. So the CPU time that each NumPy kernel takes is added up; after `PAYS_AFTER_S` a thread

1. starts a process that compiles into the cache, those first that took most time (unless all are there),
2. loads each kernel when it is in the cache, and puts it in the place of the NumPy one.

Nobody waits for it: no timeout can expire because of compilation. Where Numba is missing or broken, one
warning is logged, and NumPy stays.

``OTTLA_KERNELS`` is `auto` (this), `compiled` (all at once, each compiled in its first call) or `numpy`.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import thread_time
from types import SimpleNamespace
from typing import Any

from ottla.kernels.cache import cache_directory, ready_kernels
from ottla.model.errors import ConfigError

logger = logging.getLogger(__name__)

PAYS_AFTER_S = 0.5
CACHE_CHECK_S = 0.05
MODES = ("auto", "compiled", "numpy")


class Tiers:
    """Owns the choice for this process. `path` has the kernels that serve now."""

    def __init__(self, mode: str) -> None:
        self.path: Any
        self._loading = threading.RLock()
        self.use(mode)

    def use(self, mode: str) -> None:
        """Choose anew: one of `MODES`. Raises ConfigError for another word."""
        if mode not in MODES:
            raise ConfigError(f"OTTLA_KERNELS={mode!r} is none of {', '.join(MODES)}")
        self.mode = mode
        self._spent_s: dict[str, float] = {}
        self._preparation: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._stopping = threading.Event()
        if mode == "compiled":
            self.path = importlib.import_module("ottla.kernels.compiled")
        else:
            numpy_path = importlib.import_module("ottla.kernels.numpy_path")
            self.path = numpy_path if mode == "numpy" else self._metered(numpy_path)

    def hasten(self) -> None:
        """For work that is known to be much: return with the compiled kernels if the cache has them all.

        Otherwise have them compiled, and return at once.
        """
        if self.mode != "auto":
            return
        preparation = self._prepare()
        directory = cache_directory()
        if directory is not None and self._missing(directory) == []:
            preparation.join()

    def before_fork(self) -> None:
        """Wait while a module is being imported: a child would have half of it, for ever."""
        self._loading.acquire()

    def after_fork_in_parent(self) -> None:
        self._loading.release()

    def after_fork_in_child(self) -> None:
        """The thread that was getting the compiled kernels did not come with the child: it starts over."""
        self._loading.release()
        if isinstance(self.path, SimpleNamespace):
            self.use(self.mode)

    def _metered(self, numpy_path: Any) -> SimpleNamespace:
        metered = SimpleNamespace(VERIFY=numpy_path.VERIFY)
        for name in numpy_path.__all__:
            if callable(function := getattr(numpy_path, name)):
                setattr(metered, name, self._with_meter(name, function))
                self._spent_s[name] = 0.0
        return metered

    def _with_meter(self, name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            start = thread_time()
            result = function(*arguments)
            self._spent_s[name] += thread_time() - start
            if self._preparation is None and sum(self._spent_s.values()) > PAYS_AFTER_S:
                self._prepare()
            return result

        return call

    def _missing(self, directory: Path) -> list[str]:
        """The kernels that are not in the cache, those first that took most time here."""
        ready = ready_kernels(directory)
        names = sorted(self._spent_s, key=lambda name: -self._spent_s[name])
        return [name for name in names if name not in ready]

    def _prepare(self) -> threading.Thread:
        """Start the thread, unless it was started."""
        with self._start_lock:
            if self._preparation is None:
                self._preparation = threading.Thread(
                    target=self._run, args=(self.path,), name="ottla-kernels", daemon=True
                )
                atexit.register(self._stop)
                self._preparation.start()
            return self._preparation

    def _stop(self) -> None:
        """Before the interpreter ends: machine code is not loaded into a process that is going away."""
        self._stopping.set()
        if self._preparation is not None:
            self._preparation.join()

    def _run(self, metered: SimpleNamespace) -> None:
        try:
            self._take_over(metered)
        except Exception as error:  # noqa: BLE001 - a broken Numba raises anything, and NumPy goes on
            logger.warning(
                "ottla runs without compiled kernels (%s: %s): decoding is 3 to 27 times slower;"
                " OTTLA_KERNELS=numpy silences this",
                type(error).__name__,
                error,
            )

    def _take_over(self, metered: SimpleNamespace) -> None:
        """Replace kernel after kernel of the choice that `metered` is; another may have been made since."""
        directory = cache_directory()
        missing = [] if directory is None else self._missing(directory)
        compiler = _Compiler(missing) if missing else None
        with self._loading:
            kernel = importlib.import_module("ottla.kernels.kernel")
            if not kernel.JIT:
                raise ImportError(kernel.UNAVAILABLE_BECAUSE or "its JIT is switched off")
            signatures = importlib.import_module("ottla.kernels.signatures")
        names = self._as_compiled(directory, compiler) if directory and compiler else iter([*self._spent_s])
        for name in names:
            with self._loading:
                setattr(metered, name, signatures.load(name))
            if self._stopping.is_set():
                return
        if self._stopping.is_set() or self.path is not metered:
            return
        self.path = importlib.import_module("ottla.kernels.compiled")
        logger.info("compiled kernels serve from now on")

    def _as_compiled(self, directory: Path, compiler: _Compiler) -> Iterator[str]:
        """Yield the name of each kernel when it is in the cache. Ends early if the interpreter ends."""
        awaited = set(self._spent_s)
        while awaited and not self._stopping.wait(CACHE_CHECK_S):
            is_running = compiler.is_running()
            ready = awaited.intersection(ready_kernels(directory))
            yield from ready
            awaited -= ready
            if awaited and not is_running:
                raise RuntimeError("compiling failed; python -m ottla.kernels.signatures shows why")


class _Compiler:
    """A process that fills the cache. It says nothing, and goes on when we end: the next program needs it."""

    def __init__(self, first: list[str]) -> None:
        package_root = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH", "")]))
        self._is_running = True
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "ottla.kernels.signatures", *first],
            os.environ | {"PYTHONPATH": paths, "OTTLA_KERNELS": "compiled"},
            file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)],
        )

    def is_running(self) -> bool:
        if self._is_running:
            try:
                self._is_running = os.waitpid(self._pid, os.WNOHANG)[0] == 0
            except ChildProcessError:  # the program ignores SIGCHLD, or waits for all children itself
                self._is_running = False
        return self._is_running


TIERS = Tiers(os.environ.get("OTTLA_KERNELS", "auto").lower())
os.register_at_fork(
    before=TIERS.before_fork,
    after_in_parent=TIERS.after_fork_in_parent,
    after_in_child=TIERS.after_fork_in_child,
)
