import java.io.File;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node below a directory: DIRECTORY PORT READY_PORT. It listens at the last one when all is up. */
public final class HdfsCluster {
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("dfs.permissions.enabled", "false");
        new MiniDFSCluster.Builder(settings, new File(arguments[0]))
                .nameNodePort(Integer.parseInt(arguments[1]))
                .numDataNodes(1)
                .build()
                .waitActive();
        try (ServerSocket ready = new ServerSocket(Integer.parseInt(arguments[2]), 8, InetAddress.getLoopbackAddress())) {
            new CountDownLatch(1).await();
        }
    }
}
