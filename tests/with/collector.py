"""A receiver of OpenTelemetry's protocol, of others' making: the published schema and gRPC's own server.

collector.py http[:PORT]|grpc [REFUSALS [CERTIFICATE KEY]]: prints "PORT n", then a line of JSON for each request, `refused` for
the first REFUSALS. With files of a certificate and a key it wants TLS.
"""

import base64
import concurrent.futures
import http.server
import json
import ssl
import sys

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

refusals = int(sys.argv[2]) if len(sys.argv) > 2 else 0
identity = sys.argv[3:5]


def say(**what):
    print(json.dumps(what), flush=True)


def in_hexadecimal(value):
    """Names of traces and spans as other formats write them."""
    if isinstance(value, list):
        return [in_hexadecimal(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64decode(each).hex() if key in names else in_hexadecimal(each) for key, each in value.items()
    }


def takes(kind, request, authorization):
    global refusals
    if refusals > 0:
        refusals -= 1
        say(kind="refused")
        return False
    say(kind=kind, authorization=authorization, body=in_hexadecimal(MessageToDict(request)))
    return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    paths = {
        "/otlp/v1/metrics": ("metrics", metrics.ExportMetricsServiceRequest),
        "/otlp/v1/traces": ("spans", traces.ExportTraceServiceRequest),
    }

    def do_POST(self):
        kind, request = self.paths[self.path]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/x-protobuf", self.headers
        taken = takes(kind, request.FromString(body), self.headers["Authorization"])
        answer = metrics.ExportMetricsServiceResponse()
        if kind == "metrics":
            answer.partial_success.rejected_data_points = 1
        answer = answer.SerializeToString()
        self.send_response(200 if taken else 503)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def export(kind, request, context, answer):
    authorization = dict(context.invocation_metadata()).get("authorization")
    if not takes(kind, request, authorization):
        context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
    return answer


class Metrics(metrics_grpc.MetricsServiceServicer):
    def Export(self, request, context):
        answer = metrics.ExportMetricsServiceResponse()
        answer.partial_success.rejected_data_points = 1
        return export("metrics", request, context, answer)


class Traces(traces_grpc.TraceServiceServicer):
    def Export(self, request, context):
        return export("spans", request, context, traces.ExportTraceServiceResponse())


if sys.argv[1] == "grpc":
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    traces_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    if identity:
        certificate, key = (open(path, "rb").read() for path in identity)
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"PORT {port}", flush=True)
    server.wait_for_termination()
else:
    wanted = sys.argv[1].removeprefix("http").removeprefix(":")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(wanted or 0)), Handler)
    if identity:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*identity)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"PORT {server.server_address[1]}", flush=True)
    server.serve_forever()
