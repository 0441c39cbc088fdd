import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's REST protocol over a catalog in memory, until the process is ended: WAREHOUSE PORT. */
public final class IcebergCatalog {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = Map.of(
                "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri", "jdbc:sqlite:file::memory:?cache=shared",
                "jdbc.schema-version", "V1",
                "warehouse", arguments[0]);
        var catalog = CatalogUtil.buildIcebergCatalog("tables", settings, new Configuration());
        var handler = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1])));
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
