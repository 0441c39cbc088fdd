// Runs the main methods of Kafka's tools one after another in one Java process, which saves most of their time.
//
// A line of standard input is one run: what the tool reads, its class (or several, of which the first that
// exists is taken) and its arguments, each in base64. A class with a ! before it is loaded anew, for a tool that
// counts in a static field. A line of the answer is the exit code, what the tool
// printed and what it complained of. A tool that exits ends only its own run.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.security.Policy;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

public class ToolRunner {
    static final long RUN_SECONDS = 40;
    static volatile OutputStream printed, complaints;
    static volatile InputStream input;
    /** Of the run that a thread belongs to: a tool may call for the exit once more while it is being left. */
    static final InheritableThreadLocal<CompletableFuture<Integer>> ENDING = new InheritableThreadLocal<>();

    static class Ended extends SecurityException {
        Ended(int code) {
            super("exit " + code);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Scanner runs = new Scanner(System.in);
        // Scala keeps the streams that it finds at its first use, so they must not be replaced later.
        System.setOut(new PrintStream(new Switch(() -> printed), true));
        System.setErr(new PrintStream(new Switch(() -> complaints), true));
        System.setIn(new InputStream() {
            @Override
            public int read() throws java.io.IOException {
                return input.read();
            }

            @Override
            public int read(byte[] into, int from, int count) throws java.io.IOException {
                return input.read(into, from, count);
            }

            @Override
            public int available() throws java.io.IOException {
                return input.available();
            }
        });
        guardExits();
        while (runs.hasNextLine()) {
            List<String> fields = Arrays.stream(runs.nextLine().split(" ", -1))
                .map(each -> new String(Base64.getDecoder().decode(each), StandardCharsets.UTF_8)).toList();
            int code = run(fields);
            answers.println(code + " " + encoded(printed) + " " + encoded(complaints));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    interface Source {
        OutputStream now();
    }

    static class Switch extends OutputStream {
        private final Source source;

        Switch(Source source) {
            this.source = source;
        }

        @Override
        public void write(int each) throws java.io.IOException {
            source.now().write(each);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws java.io.IOException {
            source.now().write(bytes, from, count);
        }
    }

    static String encoded(OutputStream stream) {
        return Base64.getEncoder().encodeToString(((ByteArrayOutputStream) stream).toByteArray());
    }

    static int run(List<String> fields) throws Exception {
        printed = new ByteArrayOutputStream();
        complaints = new ByteArrayOutputStream();
        input = new ByteArrayInputStream(fields.get(0).getBytes(StandardCharsets.UTF_8));
        CompletableFuture<Integer> end = new CompletableFuture<>();
        String[] arguments = fields.subList(2, fields.size()).toArray(new String[0]);
        Thread thread = new Thread(() -> {
            ENDING.set(end);
            try {
                main(fields.get(1)).invoke(null, (Object) arguments);
                end.complete(0);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    error.getCause().printStackTrace();
                    end.complete(1);
                }
            } catch (Throwable error) {
                error.printStackTrace();
                end.complete(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
        try {
            int code = end.get(RUN_SECONDS, TimeUnit.SECONDS);
            thread.join(1000);
            runShutdownHooks();
            return code;
        } catch (TimeoutException late) {
            System.err.println("the tool did not end within " + RUN_SECONDS + " s; it stood at");
            for (StackTraceElement frame : thread.getStackTrace()) System.err.println("  " + frame);
            thread.interrupt();
            return -1;
        }
    }

    /** What Java would do at the exit: some tools send what they have left only then. Needs --add-opens. */
    @SuppressWarnings("unchecked")
    static void runShutdownHooks() throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);
        Map<Thread, Thread> hooks = (Map<Thread, Thread>) field.get(null);
        List<Thread> all = new ArrayList<>(hooks.keySet());
        hooks.clear();
        for (Thread each : all) each.start();
        for (Thread each : all) each.join(5000);
    }

    static Method main(String names) throws Exception {
        for (String name : names.split("\\|")) {
            try {
                ClassLoader loader = name.startsWith("!") ? fresh() : ToolRunner.class.getClassLoader();
                Thread.currentThread().setContextClassLoader(loader);
                return Class.forName(name.replace("!", ""), true, loader).getMethod("main", String[].class);
            } catch (ClassNotFoundException next) {
                continue;
            }
        }
        throw new ClassNotFoundException(names);
    }

    static ClassLoader fresh() throws Exception {
        List<URL> places = new ArrayList<>();
        for (String place : System.getProperty("java.class.path").split(File.pathSeparator)) {
            places.add(new File(place).toURI().toURL());
        }
        return new URLClassLoader(places.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    }

    static void end(int code) {
        CompletableFuture<Integer> end = ENDING.get();
        if (end != null) end.complete(code);
        throw new Ended(code);
    }

    /** Kafka's own seam where there is one, else a security manager, which Java has until version 23. */
    static void guardExits() throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException old) {
            Policy.setPolicy(new Policy() {
                @Override
                public boolean implies(ProtectionDomain domain, Permission any) {
                    return true;
                }
            });
            System.setSecurityManager(new SecurityManager() {
                @Override
                public void checkExit(int code) {
                    end(code);
                }

                @Override
                public void checkPermission(Permission any) {}
            });
            return;
        }
        Class<?> procedure = Class.forName("org.apache.kafka.common.utils.Exit$Procedure");
        Object ours = Proxy.newProxyInstance(procedure.getClassLoader(), new Class<?>[] {procedure},
            (proxy, method, given) -> {
                if (method.getName().equals("execute")) end((Integer) given[0]);
                return null;
            });
        for (String name : List.of("setExitProcedure", "setHaltProcedure")) {
            exit.getMethod(name, procedure).invoke(null, ours);
        }
    }
}
