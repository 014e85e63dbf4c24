# SPDX-License-Identifier: GPL-2.0-only
# True: A Java web server has one thread for all: each slow page keeps the other requests for 120 ms.
# Say: java at :8080 (takes|reads)
# Needs: java
. ./lib.sh || exit 1
pair
program Server.java <<'JAVA'
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

public class Server {
    static void serve(HttpServer server, String path, long millis) {
        server.createContext(path, exchange -> {
            try { Thread.sleep(millis); } catch (InterruptedException e) { }
            exchange.sendResponseHeaders(200, 5);
            exchange.getResponseBody().write("hello".getBytes());
            exchange.close();
        });
    }
    public static void main(String[] words) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 50);
        serve(server, "/fast", 0);
        serve(server, "/slow", 120);
        server.start();
    }
}
JAVA
start there java "$WORK/Server.java"; listening there 8080
program ask.py <<'PY'
import http.client, sys, threading, time
def ask(path, pause):
    server = http.client.HTTPConnection("10.77.0.2", 8080)
    while True:
        server.request("GET", path)
        server.getresponse().read()
        time.sleep(pause)
for _ in range(2):
    threading.Thread(target=ask, args=("/slow", 0.3)).start()
for _ in range(3):
    threading.Thread(target=ask, args=("/fast", 0.1)).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; measure there
