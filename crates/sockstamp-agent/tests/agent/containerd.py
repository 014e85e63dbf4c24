"""A containerd with one container of each of its interfaces, which talk with a server of this host.

containerd.py DIRECTORY PORT CGROUP: prints {"own": ID, "kubernetes": ID} when both run, ends them when stdin does. The
image has busybox alone. The container of containerd's own interface is as nerdctl starts it, that of Kubernetes' as kubelet does.
"""

import contextlib
import glob
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import time

import grpc

directory, port, cgroup = sys.argv[1:]
socket = f"{directory}/containerd.sock"
IMAGE = "registry.test/busybox:1"
TALK = ["/bin/sh", "-c", f"while :; do echo x | /bin/nc -w 1 127.0.0.1 {port}; done"]
SETTINGS = f"""
version = 2
root = "{directory}/root"
state = "{directory}/state"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
# Also where root may not lower it.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{directory}/none"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"""


def image(path):
    """Write an image as `docker save` does."""
    content = f"{directory}/content"
    os.makedirs(f"{content}/bin")
    shutil.copy("/bin/busybox", f"{content}/bin/busybox")
    for name in ["sh", "nc"]:
        os.symlink("busybox", f"{content}/bin/{name}")
    with tarfile.open(f"{directory}/layer.tar", "w") as layer:
        layer.add(content, arcname=".")
    with open(f"{directory}/layer.tar", "rb") as layer:
        digest = hashlib.sha256(layer.read()).hexdigest()
    settings = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["/bin/sh", "-c", "while :; do /bin/busybox sleep 1; done"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    for name, text in [("config.json", settings), ("manifest.json", manifest)]:
        with open(f"{directory}/{name}", "w", encoding="ascii") as file:
            json.dump(text, file)
    with tarfile.open(path, "w") as archive:
        for name in ["layer.tar", "config.json", "manifest.json"]:
            archive.add(f"{directory}/{name}", arcname=name)


def ctr(namespace, *arguments):
    subprocess.run(
        ["ctr", "--address", socket, "--namespace", namespace, *arguments], check=True, stdout=sys.stderr
    )


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def message(*fields):
    """A message of Protocol Buffers: of pairs of a number and text, bytes or an integer."""
    encoded = b""
    for number, value in fields:
        if isinstance(value, int):
            encoded += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            encoded += varint(number << 3 | 2) + varint(len(value)) + value
    return encoded


def first(answer):
    """The first field of an answer, which is an id."""
    assert answer[0] == 0x0A and answer[1] < 128
    return answer[2 : 2 + answer[1]].decode()


def call(channel, method, request):
    return channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")(request, timeout=60)


def labels(number, values):
    return [(number, message((1, key), (2, value))) for key, value in values.items()]


def pod(channel, ends):
    """Run a container as kubelet does, in the host's network; return its id."""
    of_host = message((1, message((1, 2))))  # security_context.namespace_options.network = NODE
    linux = message((1, f"{cgroup}/kubepods/pod1"), (2, of_host))
    settings = message((1, message((1, "web-7d4b"), (2, "1b2c"), (3, "shop"))), (8, linux))
    sandbox = first(call(channel, "RunPodSandbox", message((1, settings))))
    for method in ["RemovePodSandbox", "StopPodSandbox"]:
        ends.callback(call, channel, method, message((1, sandbox)))
    names = {
        "io.kubernetes.container.name": "cart",
        "io.kubernetes.pod.name": "web-7d4b",
        "io.kubernetes.pod.namespace": "shop",
    }
    command = [(3, word) for word in TALK]
    container = message((1, message((1, "cart"))), (2, message((1, IMAGE))), *command, *labels(9, names))
    created = first(call(channel, "CreateContainer", message((1, sandbox), (2, container), (3, settings))))
    call(channel, "StartContainer", message((1, created)))
    return created


def until_it_answers(channel):
    begun = time.monotonic()
    while True:
        try:
            return call(channel, "Version", b"")
        except grpc.RpcError:
            assert time.monotonic() < begun + 60
            time.sleep(0.1)


def work(channel, ends):
    until_it_answers(channel)
    image(f"{directory}/image.tar")
    for namespace in ["k8s.io", "default"]:
        ctr(namespace, "images", "import", f"{directory}/image.tar")
    own = secrets.token_hex(32)
    place = f"{cgroup}/nerdctl-{own}.scope"
    how = ["--detach", "--snapshotter", "native", "--net-host", "--cgroup", place, "--label", "nerdctl/name=shell"]
    ctr("default", "run", *how, IMAGE, own, *TALK)
    ends.callback(ctr, "default", "tasks", "delete", "--force", own)
    print(json.dumps({"own": own, "kubernetes": pod(channel, ends)}), flush=True)
    sys.stdin.read()


def remove_cgroups():
    """runc leaves the directories above those of its containers."""
    for top in glob.glob(f"/sys/fs/cgroup/*{cgroup}") + glob.glob(f"/sys/fs/cgroup{cgroup}"):
        for place, _, _ in os.walk(top, topdown=False):
            os.rmdir(place)


def main():
    settings = f"{directory}/config.toml"
    with open(settings, "w", encoding="ascii") as file:
        file.write(SETTINGS)
    with open(f"{directory}/log", "w", encoding="ascii") as log:
        with subprocess.Popen(["containerd", "--config", settings], stdout=log, stderr=log) as daemon:
            try:
                with grpc.insecure_channel(f"unix:{socket}") as channel, contextlib.ExitStack() as ends:
                    work(channel, ends)
            finally:
                daemon.terminate()
                daemon.wait()
                remove_cgroups()


main()
