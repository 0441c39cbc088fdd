import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's own producer state. A line in: producer id, epoch, first sequence, record count, timestamp. A line
 * out: "appended OFFSET", "duplicate FIRST LAST TIMESTAMP" or "error CODE". At the end a snapshot is left in
 * the directory. Begins with a snapshot that is there.
 */
public class ProducerOracle {
    public static void main(String[] arguments) throws Exception {
        ProducerStateManager states = new ProducerStateManager(
            new TopicPartition("t", 0), new File(arguments[0]), 60_000,
            new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        states.truncateAndReload(0, Long.MAX_VALUE, 0);
        long end = states.mapEndOffset();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            long[] sent = Arrays.stream(line.split(" ")).mapToLong(Long::parseLong).toArray();
            SimpleRecord[] records = new SimpleRecord[(int) sent[3]];
            Arrays.fill(records, new SimpleRecord(sent[4], null, new byte[0]));
            RecordBatch batch = MemoryRecords.withIdempotentRecords(
                RecordBatch.MAGIC_VALUE_V2, end, Compression.NONE, sent[0], (short) sent[1], (int) sent[2], 0,
                records).batches().iterator().next();
            Optional<BatchMetadata> found = states.lastEntry(sent[0]).flatMap(one -> one.findDuplicateBatch(batch));
            if (found.isPresent()) {
                BatchMetadata old = found.get();
                answers.append(String.format("duplicate %d %d %d%n", old.firstOffset(), old.lastOffset, old.timestamp));
                continue;
            }
            try {
                ProducerAppendInfo append = states.prepareUpdate(sent[0], AppendOrigin.CLIENT);
                append.append(batch, Optional.empty());
                states.update(append);
                answers.append(String.format("appended %d%n", end));
                end += sent[3];
                states.updateMapEndOffset(end);
            } catch (RuntimeException error) {
                answers.append(String.format("error %d%n", Errors.forException(error).code()));
            }
        }
        states.takeSnapshot();
        System.out.print(answers);
    }
}
