"""Runs a command and ends it when the process that started this guard is gone. A script; not imported.

    python -I process_guard.py GRACE_SECONDS COMMAND ARGUMENT …

The guard prints the command's process id and then reads one letter at a time: T, K, S and C are sent on as
SIGTERM, SIGKILL, SIGSTOP and SIGCONT, and echoed when that is done. The end of its input means that its
starter has closed the pipe or died, however it died: the command gets SIGTERM, and SIGKILL after the
grace. A pipe tells this on every system and from every thread; a signal at the parent's death is Linux's
own, and is used one step below, for the case that the guard itself is killed.

It imports nothing of ottla, so that it starts in a few hundredths of a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

SIGNALS = {
    b"T": signal.SIGTERM,
    b"K": signal.SIGKILL,
    b"S": signal.SIGSTOP,
    b"C": signal.SIGCONT,
}
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _obey(process: subprocess.Popen[bytes], grace_s: float) -> None:
    # If nobody reads an answer any more, writing it fails, which means the same as the end of the input.
    with suppress(OSError):
        while letter := os.read(0, 1):
            # send_signal looks first whether the process still runs, so no stranger gets the signal.
            process.send_signal(SIGNALS[letter])
            if letter == b"S":
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            os.write(1, letter)
    process.terminate()
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()


def main(arguments: list[str]) -> int:
    """Run the command to its end; returns its exit code, 128 + n for signal n."""
    # Ctrl-C in a terminal reaches every process there; the starter decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # preexec_fn is safe here: the guard has one thread when it forks.
    process = subprocess.Popen(
        arguments[1:],
        stdin=subprocess.DEVNULL,
        stdout=2,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    os.write(1, f"{process.pid}\n".encode())
    threading.Thread(target=_obey, args=(process, float(arguments[0])), daemon=True).start()
    code = process.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
