"""Files of positions go round: Kafka 0.9's offsets topic, our export, Kafka's ImportZkOffsets, and back."""

from __future__ import annotations

from pathlib import Path

from tests.cli.kafka.conftest import Era, ours

GROUP = "filed"
LINES = [f"/consumers/{GROUP}/offsets/files/{number}:{number + 7}" for number in range(3)]


def test_our_files_and_kafkas_are_one_format(old: Era, tmp_path: Path) -> None:
    keeper = old.kafka.zookeeper
    at = ("-b", old.kafka.bootstrap, "--zookeeper", keeper)
    made = old.tool(
        *("kafka.admin.TopicCommand", "--zookeeper", keeper, "--create", "--topic", "files"),
        *("--partitions", "3", "--replication-factor", "1"),
    )
    assert made.code == 0
    first, theirs, back = (tmp_path / name for name in ("first", "theirs", "back"))
    first.write_text("\n".join(LINES) + "\n")
    assert ours("offsets", "import", str(first), "--to", "kafka", "--execute", *at).code == 0

    assert ours("offsets", "export", "--group", GROUP, "--from", "kafka", str(back), *at).code == 0
    assert back.read_text() == first.read_text()
    load = ("kafka.tools.ImportZkOffsets", "--zkconnect", keeper, "--input-file", str(back))
    assert old.tool(*load).code == 0
    same = ours(
        *("offsets", "migrate", "-g", GROUP, "--from", "zookeeper", "--to", "kafka", "--format", "tsv"), *at
    )
    assert [line.split("\t")[5] for line in same.printed.splitlines()[1:]] == ["same"] * 3

    save = ("kafka.tools.ExportZkOffsets", "--zkconnect", keeper, "--group", GROUP)
    assert old.tool(*save, "--output-file", str(theirs)).code == 0
    assert sorted(theirs.read_text().splitlines()) == LINES
    loaded = ours("offsets", "import", str(theirs), "--to", "zookeeper", "--format", "tsv", *at)
    assert [line.split("\t")[5] for line in loaded.printed.splitlines()[1:]] == ["same"] * 3
