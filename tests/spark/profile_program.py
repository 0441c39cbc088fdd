"""Lands a topic in S3, with the keys of a profile.

    python -m tests.spark.profile_program BOOTSTRAP TOPIC URL FORMAT …

It prints, for each format, how many records have landed, and how many have when it is run again.
"""

from __future__ import annotations

import json
import sys

from ottla.spark.lander import Lander
from ottla.spark.raw_tables import raw_table


def main(bootstrap: str, topic: str, url: str, *kinds: str) -> None:
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    landed = {
        kind: [
            sum(
                batch.records
                for batch in Lander(source, raw_table(kind, f"{url}/{kind}", {}, has_headers=False)).batches()
            )
            for _ in range(2)
        ]
        for kind in kinds
    }
    sys.stdout.write(json.dumps(landed))


if __name__ == "__main__":
    main(*sys.argv[1:])
