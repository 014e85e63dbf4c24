# SPDX-License-Identifier: GPL-2.0-only
# True: A Java service has more live objects than its heap likes: collections of garbage stop it for hundreds of milliseconds.
# Say: java at :8080 .*(other threads|garbage|collect)
# Needs: java
. ./lib.sh || exit 1
pair
program Server.java <<'JAVA'
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Server {
    static Object[] kept = new Object[6_000_000];
    public static void main(String[] words) throws Exception {
        for (int of = 0; of < kept.length; of++) kept[of] = new long[4];
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 50);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            for (int of = 0; of < 20000; of++)
                kept[(int) (Math.random() * kept.length)] = new long[4];
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("hello".getBytes());
            exchange.close();
        });
        server.start();
    }
}
JAVA
start here java -XX:+UseSerialGC -Xms400m -Xmx400m -Xmn20m "$WORK/Server.java"; listening here 8080
program ask.py <<'PY'
import http.client, threading, time
def ask():
    server = http.client.HTTPConnection("10.77.0.1", 8080)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.02)
for _ in range(4):
    threading.Thread(target=ask).start()
PY
start there python3 "$WORK/ask.py"
sleep 2; measure here
