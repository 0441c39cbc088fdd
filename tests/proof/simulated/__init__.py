"""The whole system in virtual time, under faults that a seed decides, judged by the checker of all histories.

`account` notes what the parts do and are told, `parts` are the processes, `scenario` puts them together:

    python -m tests.proof.simulated --seeds 100
    python -m tests.proof.simulated --first 17 --seeds 1 --tell
"""
