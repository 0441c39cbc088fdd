"""`ottla completion`: a script for the shell, that completes the names of commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ottla.cli.output import print_line

_SCRIPTS = {
    "bash": 'complete -W "{names}" ottla',
    "zsh": 'compdef \'_arguments "1:command:({names})" "*:file:_files"\' ottla',
    "fish": "complete -c ottla -n __fish_use_subcommand -f -a '{names}'",
}


def run(arguments: Sequence[str]) -> int:
    """Print the script: `source <(ottla completion bash)`."""
    from ottla.cli.main import COMMANDS

    parser = argparse.ArgumentParser(prog="ottla completion", description="Print a script for a shell.")
    parser.add_argument("shell", choices=sorted(_SCRIPTS))
    options = parser.parse_args(arguments)
    print_line(_SCRIPTS[options.shell].format(names=" ".join(COMMANDS)))
    return 0
