import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.zookeeper.data.Stat;

/** Reads lines of "path data" and prints what Kafka's own decoders make of the data. */
public final class ZnodeReader {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split(" ", 2);
            System.out.println(parts[0] + " " + read(parts[0], parts[1].getBytes(StandardCharsets.UTF_8)));
        }
    }

    private static Object read(String path, byte[] data) {
        if (path.startsWith("/brokers/ids/")) {
            return kafka.zk.BrokerIdZNode.decode(Integer.parseInt(path.substring(13)), data).broker();
        } else if (path.endsWith("/state")) {
            return kafka.zk.TopicPartitionStateZNode.decode(data, new Stat()).get();
        } else if (path.startsWith("/brokers/topics/")) {
            return kafka.zk.TopicZNode.decode(path.substring(16), data);
        } else if (path.startsWith("/config/topics/")) {
            return kafka.zk.ConfigEntityZNode.decode(data);
        } else if (path.equals("/controller")) {
            return kafka.zk.ControllerZNode.decode(data).get();
        } else if (path.equals("/controller_epoch")) {
            return kafka.zk.ControllerEpochZNode.decode(data);
        } else if (path.equals("/cluster/id")) {
            return kafka.zk.ClusterIdZNode.fromJson(data);
        }
        throw new IllegalArgumentException(path);
    }
}
