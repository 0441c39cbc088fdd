"""The whole story on one machine, in a minute or two; exits with 0 only if every check in it held.

    ZooKeeper, broker ◀── ad events, produced over half a minute (topic ExternalAdService)
        ├── a classic group (ZooKeeper) ─┐ a member joins each, and one of each is killed:
        ├── a modern group (coordinator) ┘ no event is missing in either
        ├── the online pipeline on Spark ──▶ parquet: events and cents per minute and kind
        └── the offline pipeline, afterwards ──▶ the same table

`make demo` runs it. What it leaves behind is in build/demo: the tables, the logs, and lag.png.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from string import Template

import pyarrow as pa

from examples.demo.checks import check_group, check_tables
from examples.demo.cluster import Cluster, Process, end, run_ottla
from examples.demo.events import EVENTS, PARTITIONS, STEP, TOPIC, ad_events, per_minute, produce
from examples.demo.lags import Lags, Sample, draw
from ottla import Admin, __version__, replay
from ottla.admin import NewTopic

PLACE = Path("build/demo")
FORM = Path(__file__).with_name("ads.toml")
PRODUCE_S = 30
START_S = READ_S = 150
"""For the slowest reader to begin, and to be done after the last event."""
GROUPS = {"classic": "ads-classic", "modern": "ads-modern"}
PIPELINE_GROUP = "ads-pipeline"


class Groups:
    """The members of both groups, and the files that they write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.members: dict[str, list[Process]] = {kind: [] for kind in GROUPS}

    def start(self, kind: str, count: int = 1) -> None:
        """So many more members."""
        cluster, members = self._cluster, self.members[kind]
        for _ in range(count):
            name = f"{kind}-{len(members)}"
            where = (cluster.bootstrap, cluster.zookeeper, GROUPS[kind], str(cluster.place / f"{name}.txt"))
            members.append(cluster.start(name, "examples.demo.member", kind, *where))

    def kill_the_first(self, kind: str) -> None:
        """Without a goodbye: kill -9."""
        self.members[kind][0].kill()

    def end(self) -> None:
        """All that still run, and each has to end well."""
        alive = [one for some in self.members.values() for one in some[1:]]
        end(*alive)
        assert not any(one.returncode for one in alive), f"a member failed: see {self._cluster.place}"


def main() -> None:
    """Tell the story."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    print(f"ottla {__version__}: {EVENTS:,} ad events over {PARTITIONS} partitions of {TOPIC}")
    events = ad_events()
    with Cluster(PLACE.absolute()) as cluster:
        print(f"ZooKeeper is at {cluster.zookeeper}, a broker at {cluster.bootstrap}\n")
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"}))
        lags = read_online(cluster, events)
        draw(lags, PLACE / "lag.png")
        print("\nthe same pipeline once more, offline, over the whole topic")
        run_ottla(PLACE / "offline.log", "pipeline", "run", declared(cluster, "offline"), "--offline")
        check_tables(PLACE / "online/table", PLACE / "offline/table", per_minute(events))
        for kind, group in GROUPS.items():
            check_group(group, PLACE.glob(f"{kind}-*.txt"))
        print("\nlag of all groups")
        places = ("--bootstrap-server", cluster.bootstrap, "--zookeeper", cluster.zookeeper)
        print(run_ottla(PLACE / "lag.log", "lag", *places))
    print(f"everything has ended; throughput and lag over time are in {PLACE / 'lag.png'}")
    print("every check held")


def declared(cluster: Cluster, way: str) -> str:
    """The file of the pipeline, with a place of its own for each way."""
    place = cluster.place / way
    place.mkdir()
    text = Template(FORM.read_text()).substitute(bootstrap=cluster.bootstrap, place=place)
    (place / "ads.toml").write_text(text)
    return str(place / "ads.toml")


def read_online(cluster: Cluster, events: pa.Table) -> Lags:
    """Produce, and read while the events come: two groups with a member that joins and one that dies."""
    groups = Groups(cluster)
    pipeline = cluster.start("online", "ottla", "pipeline", "run", declared(cluster, "online"), "--online")
    everybody = (*GROUPS.values(), PIPELINE_GROUP)
    with Lags(cluster.bootstrap, cluster.zookeeper, everybody) as lags:
        produce(cluster.bootstrap, events.slice(0, STEP), 0, lags.sent)
        with replay(TOPIC, bootstrap_servers=cluster.bootstrap) as first:
            assert sum(batch.num_rows for batch in first) == STEP
        lags.mark("the first events are there, and read back")
        for kind in GROUPS:
            groups.start(kind, 2)
        lags.wait_until(all_is_read, "everybody reads", START_S)
        lags.mark("two members of each group read, and the pipeline")
        producing = threading.Thread(
            target=produce, args=(cluster.bootstrap, events.slice(STEP), PRODUCE_S, lags.sent), daemon=True
        )
        producing.start()
        producing.join(PRODUCE_S / 3)
        for kind in GROUPS:
            groups.start(kind)
        lags.mark("a third member joins each group")
        producing.join(PRODUCE_S / 3)
        for kind in GROUPS:
            groups.kill_the_first(kind)
        lags.mark("the first member of each is killed")
        producing.join()
        lags.mark("the last event is produced")
        lags.wait_until(all_is_read, "everything is read", READ_S)
        lags.mark("everybody has read everything")
        groups.end()
        end(pipeline)
        assert pipeline.returncode == 0, f"the pipeline failed: see {cluster.place}"
    return lags


def all_is_read(sample: Sample) -> bool:
    """Nobody is behind."""
    return not any(sample.lags.values())


if __name__ == "__main__":
    main()
