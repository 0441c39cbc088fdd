"""Exactly once into topics: each task writes in a transaction of its own, and the driver ends all of them.

    plan       the driver takes over the write's name, reads the last decision, ends what was left open
    tasks      each writes its rows, leaves its transaction open, and hands its identity to the driver
    decide     the driver stores the identities as its decision, and then commits them one by one

`decisions` is what is stored, `decision_log` the topic with it, `write_driver` the driver's part,
`write_tasks` that of the executors, `settings` the options. Why it is so: docs/decisions.
"""
