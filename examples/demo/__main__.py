"""The whole story on one machine, in a minute or two; exits with 0 only if every check in it held.

    ZooKeeper, broker ◀── ad events, produced over half a minute (topic ExternalAdService)
        ├── a classic group (ZooKeeper) ─┐ a member joins each, and one of each is killed:
        ├── a modern group (coordinator) ┘ no event is missing in either
        ├── the online pipeline on Spark ──▶ parquet: events and cents per minute and kind
        └── the offline pipeline, afterwards ──▶ the same table

Without Java there is no ZooKeeper and no Spark: the modern group reads alone, and the demo says so.

`make demo` runs it. It opens with the console's address, and leaves in build/demo: tables, logs,
lag.png, and pictures of the console if there is a Chromium.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from string import Template

import pyarrow as pa

from examples.demo.checks import check_group, check_tables
from examples.demo.cluster import Cluster, Process, end, run_ottla
from examples.demo.console_pictures import take_pictures
from examples.demo.events import EVENTS, PARTITIONS, STEP, TOPIC, ad_events, per_minute, produce
from examples.demo.lags import Lags, Sample, draw
from ottla import Admin, __version__, replay
from ottla.admin import NewTopic
from ottla.zookeeper.java_runtime import java_command, zookeeper_jars
from ottla.zookeeper.zookeeper_errors import ServerFailed

DIRECTORY = Path("build/demo")
FORM = Path(__file__).with_name("ads.toml")
PRODUCE_S = 30
START_S = READ_S = 400
"""For the slowest reader to begin, and to be done after the last event."""
GROUPS = {"classic": "ads-classic", "modern": "ads-modern"}
PIPELINE_GROUP = "ads-pipeline"


class Groups:
    """The members of both groups, and the files that they write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.kinds = [kind for kind in GROUPS if cluster.zookeeper or kind != "classic"]
        self.members: dict[str, list[Process]] = {kind: [] for kind in self.kinds}

    def start(self, kind: str, count: int = 1) -> None:
        """Start `count` more members."""
        cluster, members = self._cluster, self.members[kind]
        for _ in range(count):
            name = f"{kind}-{len(members)}"
            where = (
                cluster.bootstrap,
                cluster.zookeeper,
                GROUPS[kind],
                str(cluster.directory / f"{name}.txt"),
            )
            members.append(cluster.start(name, "examples.demo.member", kind, *where))

    def kill_the_first(self, kind: str) -> None:
        """Kill the first member with SIGKILL."""
        self.members[kind][0].kill()

    def end(self) -> None:
        """End all members that still run; each must exit with 0."""
        alive = [member for members in self.members.values() for member in members[1:]]
        end(*alive)
        assert not any(member.returncode for member in alive), (
            f"a member failed: see {self._cluster.directory}"
        )


def main(produce_s: float = PRODUCE_S) -> None:
    """Run the demo; the events are produced over `produce_s` seconds."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    print(f"ottla {__version__}: {EVENTS:,} ad events over {PARTITIONS} partitions of {TOPIC}")
    events = ad_events()
    missing = why_no_java()
    if missing:
        print(f"left out are ZooKeeper, the classic group and the pipeline on Spark: {missing}")
    with Cluster(DIRECTORY.absolute(), has_zookeeper=not missing) as cluster:
        keeper = f"ZooKeeper is at {cluster.zookeeper}, " if cluster.zookeeper else ""
        print(f"{keeper}a broker at {cluster.bootstrap}")
        print(f"look at it in a browser while it runs: {cluster.console}\n")
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, PARTITIONS, configs={"retention.ms": "-1"}))
        groups = Groups(cluster)
        lags = read_online(cluster, groups, events, produce_s)
        draw(lags, DIRECTORY / "lag.png")
        if cluster.zookeeper:
            print("\nthe same pipeline once more, offline, over the whole topic")
            run_ottla(DIRECTORY / "offline.log", "pipeline", "run", declared(cluster, "offline"), "--offline")
            check_tables(DIRECTORY / "online/table", DIRECTORY / "offline/table", per_minute(events))
        for kind in groups.kinds:
            check_group(GROUPS[kind], DIRECTORY.glob(f"{kind}-*.txt"))
        pictures = take_pictures(
            cluster.console, DIRECTORY, [f"groups/{GROUPS[kind]}" for kind in groups.kinds]
        )
        print("\nlag of all groups")
        print(run_ottla(DIRECTORY / "lag.log", "lag", *cluster.flags))
    print(f"everything has ended; throughput and lag over time are in {DIRECTORY / 'lag.png'}")
    if pictures:
        print(f"and the console's pages in {', '.join(map(str, pictures))}")
    print("every check held")


def why_no_java() -> str:
    """Say what ZooKeeper and Spark lack here; "" if nothing."""
    try:
        java_command()
        zookeeper_jars()
    except ServerFailed as error:
        return str(error)
    return ""


def declared(cluster: Cluster, way: str) -> str:
    """Write the pipeline's TOML file, with its own directory for each way to run it."""
    target = cluster.directory / way
    target.mkdir()
    text = Template(FORM.read_text()).substitute(bootstrap=cluster.bootstrap, place=target)
    (target / "ads.toml").write_text(text)
    return str(target / "ads.toml")


def read_online(cluster: Cluster, groups: Groups, events: pa.Table, produce_s: float) -> Lags:
    """Produce and read at the same time: in each group a member joins and another one is killed."""
    readers, pipeline = [GROUPS[kind] for kind in groups.kinds], None
    if cluster.zookeeper:
        form = declared(cluster, "online")
        pipeline = cluster.start("online", "ottla", "pipeline", "run", form, "--online")
        readers.append(PIPELINE_GROUP)
    with Lags(cluster.bootstrap, cluster.zookeeper, readers) as lags:
        produce(cluster.bootstrap, events.slice(0, STEP), 0, lags.sent)
        with replay(TOPIC, bootstrap_servers=cluster.bootstrap) as first:
            assert first.to_table().num_rows == STEP
        lags.mark("the first events are there, and read back")
        for kind in groups.kinds:
            groups.start(kind, 2)
        lags.wait_until(all_is_read, "everybody reads", START_S)
        lags.mark("two members of each group read" + (", and the pipeline" if pipeline else ""))
        producing = threading.Thread(
            target=produce, args=(cluster.bootstrap, events.slice(STEP), produce_s, lags.sent), daemon=True
        )
        producing.start()
        producing.join(produce_s / 3)
        for kind in groups.kinds:
            groups.start(kind)
        lags.mark("a third member joins each group")
        producing.join(produce_s / 3)
        for kind in groups.kinds:
            groups.kill_the_first(kind)
        lags.mark("the first member of each is killed")
        producing.join()
        lags.mark("the last event is produced")
        lags.wait_until(all_is_read, "everything is read", READ_S)
        lags.mark("everybody has read everything")
        groups.end()
        if pipeline:
            end(pipeline)
            assert pipeline.returncode == 0, f"the pipeline failed: see {cluster.directory}"
    return lags


def all_is_read(sample: Sample) -> bool:
    """Whether every reader has read everything."""
    return not any(sample.lags.values())


if __name__ == "__main__":
    main()
