import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's own reader and writer of record sets, for test_java_reader.py.
 *
 * <p>Arguments: rows (text), in (directory), out (directory). Reads every in/NAME.bin and tells what it found in
 * out/NAME.jsonl; writes record sets of the rows into out/NAME.bin. A row is four fields between tabs: timestamp,
 * key, value, headers; bytes are in hex, "-" is null, headers are key:value between commas.
 */
public final class RecordSets {
    static final long APPEND_TIME = 1_750_000_000_123L;
    static final int ROOM = 1 << 20;

    record Row(long timestamp, byte[] key, byte[] value, Header[] headers) {}

    public static void main(String[] args) throws IOException {
        List<Path> inputs;
        try (Stream<Path> files = Files.list(Path.of(args[1]))) {
            inputs = files.filter(file -> file.toString().endsWith(".bin")).sorted().collect(Collectors.toList());
        }
        Path out = Path.of(args[2]);
        for (Path input : inputs) {
            String name = input.getFileName().toString().replace(".bin", ".jsonl");
            byte[] data = Files.readAllBytes(input);
            Files.write(out.resolve(name), told(data));
            if (name.equals("format0-lz4.jsonl") || name.equals("format1-lz4.jsonl")) {
                Files.writeString(out.resolve(name.replace(".jsonl", ".lz4")), checksums(data));
            }
        }
        write(rows(Path.of(args[0])), out);
    }

    // ---- reading

    /** One line a batch, and one a record of it; what is refused is the last line. */
    static List<String> told(byte[] data) {
        List<String> lines = new ArrayList<>();
        try {
            for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                lines.add(String.format(
                    "{\"batch\": [%d, %d, %d, %d], \"producer\": [%d, %d, %d], \"flags\": [%b, %b]}",
                    batch.magic(), batch.compressionType().id, batch.baseOffset(), batch.lastOffset(),
                    batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
                    batch.isTransactional(), batch.isControlBatch()));
                for (Record record : batch) {
                    record.ensureValid();
                    lines.add(String.format(
                        "{\"row\": [%d, %d, %d, %s, %s, [%s]]}",
                        record.offset(), record.timestamp(), batch.timestampType().id,
                        hex(record.key()), hex(record.value()),
                        Stream.of(record.headers())
                            .map(header -> "[" + hex(header.key().getBytes(StandardCharsets.UTF_8)) + ", "
                                + hex(header.value()) + "]")
                            .collect(Collectors.joining(", "))));
                }
            }
        } catch (RuntimeException refusal) {
            lines.add("{\"refused\": \"" + refusal.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}");
        }
        return lines;
    }

    /** Of the lz4 frame in a wrapper: the header's checksum, and the hashes from its magic number and from FLG on. */
    static String checksums(byte[] wrapper) {
        int frame = (wrapper[16] == 0 ? 18 : 26) + 8;
        XXHash32 hash = XXHashFactory.safeInstance().hash32();
        int wrong = hash.hash(wrapper, frame, 6, 0) >> 8 & 0xff;
        int right = hash.hash(wrapper, frame + 4, 2, 0) >> 8 & 0xff;
        return (wrapper[frame + 6] & 0xff) + " " + wrong + " " + right;
    }

    static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return "null";
        }
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return hex(copy);
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "null" : '"' + java.util.HexFormat.of().formatHex(bytes) + '"';
    }

    // ---- writing

    static List<Row> rows(Path file) throws IOException {
        return Files.readAllLines(file).stream().map(line -> {
            String[] fields = line.split("\t", -1);
            Header[] headers = Stream.of(fields[3].split(","))
                .filter(pair -> !pair.isEmpty())
                .map(pair -> pair.split(":", -1))
                .map(pair -> new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])))
                .toArray(Header[]::new);
            return new Row(Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers);
        }).collect(Collectors.toList());
    }

    static byte[] bytes(String hex) {
        return hex.equals("-") ? null : java.util.HexFormat.of().parseHex(hex);
    }

    static void write(List<Row> rows, Path out) throws IOException {
        for (byte magic = 0; magic <= 2; magic++) {
            for (CompressionType type : CompressionType.values()) {
                if (type == CompressionType.ZSTD && magic < 2) {
                    continue;
                }
                String name = "java-format" + magic + "-" + type.name;
                Compression codec = Compression.of(type).build();
                TimestampType kind = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
                save(out, name, plain(rows, magic, codec, kind, 100));
                if (magic > 0) {
                    save(out, name + "-append-time", plain(rows, magic, codec, TimestampType.LOG_APPEND_TIME, 100));
                }
                save(out, name + "-gaps", gaps(rows, magic, codec, kind));
                if (magic == 2) {
                    save(out, name + "-transactions", transactions(rows, codec));
                    save(out, name + "-horizon", horizon(rows, codec));
                }
            }
        }
        ByteBuffer empty = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(
            empty, (byte) 2, 7, (short) 1, 0, 30, 39, 4, TimestampType.CREATE_TIME, -1, false, false);
        empty.flip();
        save(out, "java-empty", empty);
        save(out, "java-leader-change",
            MemoryRecords.withLeaderChangeMessage(
                60, 5, 2, ByteBuffer.allocate(200), new LeaderChangeMessage().setLeaderId(1)).buffer());
    }

    static ByteBuffer plain(List<Row> rows, byte magic, Compression codec, TimestampType kind, long base) {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(ROOM), magic, codec, kind, base, APPEND_TIME);
        for (Row row : rows) {
            builder.append(row.timestamp, row.key, row.value, headers(row, magic));
        }
        return builder.build().buffer();
    }

    /** As a cleaner leaves a batch: every third record is there; in format 2 the end of the batch is known too. */
    static ByteBuffer gaps(List<Row> rows, byte magic, Compression codec, TimestampType kind) {
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(ROOM), magic, codec, kind, 200, APPEND_TIME);
        for (int i = 1; i < rows.size(); i += 3) {
            Row row = rows.get(i);
            builder.appendWithOffset(200 + i, row.timestamp, row.key, row.value, headers(row, magic));
        }
        if (magic == 2) {
            builder.overrideLastOffset(250);
        }
        return builder.build().buffer();
    }

    /** Two transactions that overlap: producer 7 aborts, producer 8 commits; then a batch of no transaction. */
    static ByteBuffer transactions(List<Row> rows, Compression codec) {
        ByteBuffer all = ByteBuffer.allocate(3 * ROOM);
        all.put(transactional(rows.subList(0, 2), codec, 300, 7));
        all.put(transactional(rows.subList(0, 3), codec, 302, 8));
        all.put(transactional(rows.subList(3, 4), codec, 305, 7));
        all.put(marker(306, 7, ControlRecordType.ABORT));
        all.put(marker(307, 8, ControlRecordType.COMMIT));
        all.put(transactional(rows.subList(4, 5), codec, 308, 7));
        all.put(marker(309, 7, ControlRecordType.COMMIT));
        all.put(plain(rows.subList(5, 6), (byte) 2, codec, TimestampType.CREATE_TIME, 310));
        all.flip();
        return all;
    }

    static ByteBuffer transactional(List<Row> rows, Compression codec, long base, long producer) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(ROOM), (byte) 2, codec, TimestampType.CREATE_TIME, base, APPEND_TIME,
            producer, (short) 1, 0, true, 3);
        for (Row row : rows) {
            builder.append(row.timestamp, row.key, row.value, row.headers);
        }
        return builder.build().buffer();
    }

    static ByteBuffer marker(long offset, long producer, ControlRecordType type) {
        return MemoryRecords.withEndTransactionMarker(
            offset, APPEND_TIME, 3, producer, (short) 1, new EndTransactionMarker(type, 5)).buffer();
    }

    /** With a delete horizon, which takes the place of the first timestamp in the batch header. */
    static ByteBuffer horizon(List<Row> rows, Compression codec) {
        ByteBufferOutputStream stream = new ByteBufferOutputStream(ByteBuffer.allocate(ROOM));
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            stream, (byte) 2, codec, TimestampType.CREATE_TIME, 100, -1, -1, (short) -1, -1, false, false, 3,
            ROOM, APPEND_TIME + 86_400_000);
        for (Row row : rows) {
            builder.append(row.timestamp, row.key, row.value, row.headers);
        }
        return builder.build().buffer();
    }

    static Header[] headers(Row row, byte magic) {
        return magic == 2 ? row.headers : Record.EMPTY_HEADERS;
    }

    static void save(Path out, String name, ByteBuffer buffer) throws IOException {
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        Files.write(out.resolve(name + ".bin"), data);
    }
}
