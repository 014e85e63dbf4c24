# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a Java web server with eight threads answers within 3 ms.
# Say: ^$
# Needs: java
. ./lib.sh || exit 1
pair
program Server.java <<'JAVA'
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Server {
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 50);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            try { Thread.sleep(3); } catch (InterruptedException e) { }
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("hello".getBytes());
            exchange.close();
        });
        server.start();
    }
}
JAVA
start there java -Dsun.net.httpserver.nodelay=true "$WORK/Server.java"; listening there 8080
program ask.py <<'PY'
import http.client, threading, time
def ask():
    server = http.client.HTTPConnection("10.77.0.2", 8080)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.2)
for _ in range(4):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 1.5; measure there
