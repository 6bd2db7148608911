"""Three nodes with four drives each, as processes, and a node that dies in the middle of a transfer."""

import filecmp
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

NODES, DRIVES = 3, 4
SOON = 60
MIB = 1 << 20
# What changes how clients reach a server on this machine.
MISLEADING = ("AWS_", "SSL_CERT", "REQUESTS_CA", "CURL_CA", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "RCLONE_",
              "RESTIC_")
KEYS = {"all": ("client-key", "client-secret", None), "other": ("other-key", "other-secret", "other")}


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.upper().startswith(MISLEADING)}
    return {**kept, **more}


def wait_for(what, holds, seconds=SOON):
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not happen within {seconds} s")
        time.sleep(0.02)


class Cluster:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.running = str(binary), pathlib.Path(folder), {}
        # Held until the nodes take them, so that no two are given the same.
        held = [socket.socket() for _ in range(NODES)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
        self.endpoints = [f"http://{address}" for address in addresses]
        nodes = [{"address": address,
                  "drives": [str(self.folder / f"node{node}" / f"drive{slot}") for slot in range(DRIVES)]}
                 for node, address in enumerate(addresses)]
        (self.folder / "cluster.secret").write_text("cluster-secret")
        principals = {}
        for name, (key, secret, account) in KEYS.items():
            (self.folder / f"{name}.secret").write_text(secret)
            principals[key] = {"secret_file": str(self.folder / f"{name}.secret"), "actions": ["*"],
                               **({"account": account} if account else {})}
        for node, address in enumerate(addresses):
            for drive in nodes[node]["drives"]:
                os.makedirs(drive)
            config = {"node": node, "listen": address, "nodes": nodes, "set_drives": NODES * DRIVES,
                      "allow_unmounted": True, "cluster_secret_file": str(self.folder / "cluster.secret"),
                      "principals": principals}
            # JSON is YAML.
            (self.folder / f"node{node}.yaml").write_text(json.dumps(config))
        for one in held:
            one.close()

    def configure(self, node, **more):
        """Changes what a node finds in its configuration at its next start."""
        path = self.folder / f"node{node}.yaml"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))

    def start(self, node):
        with open(self.folder / f"node{node}.log", "ab") as log:
            self.running[node] = subprocess.Popen(
                [self.binary, "node", "--config", str(self.folder / f"node{node}.yaml")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})

    def start_all(self):
        for node in range(NODES):
            self.start(node)
        for node in range(NODES):
            wait_for(f"node {node} being ready", lambda: self.is_ready(node))

    def is_ready(self, node):
        if self.running[node].poll() is not None:
            raise RuntimeError(f"node {node} ended: {self.tail(node)}")
        try:
            with urllib.request.urlopen(self.endpoints[node] + "/health/ready", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def kill(self, node):
        self.running[node].send_signal(signal.SIGKILL)
        self.running.pop(node).wait()

    def end(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def tail(self, node):
        return (self.folder / f"node{node}.log").read_text(errors="replace")[-2000:]


def make_tree(folder, files=160, large=6):
    """A tree with names of many kinds, small files and large ones; answers its bytes."""
    folder, total = pathlib.Path(folder), 0
    for number in range(files):
        place = folder / f"folder {number % 7}" / ("ü%+" if number % 3 else "deep/er")
        place.mkdir(parents=True, exist_ok=True)
        size = [0, 1, 4_096, 131_073, 400_000][number % 5]
        (place / f"file {number}.bin").write_bytes(os.urandom(size))
        total += size
    for number in range(large):
        size = 11 * MIB + number
        (folder / f"large {number}.bin").write_bytes(os.urandom(size))
        total += size
    return total


def same_trees(one, other):
    """Names every difference of two trees; none when they are alike byte for byte."""
    def paths(root):
        return {str(path.relative_to(root)) for path in pathlib.Path(root).rglob("*") if path.is_file()}
    ours, theirs = paths(one), paths(other)
    differ = sorted(ours ^ theirs)
    return differ + [path for path in sorted(ours & theirs)
                     if not filecmp.cmp(os.path.join(one, path), os.path.join(other, path), shallow=False)]


def bytes_below(folder):
    total = 0
    for path in pathlib.Path(folder).rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            pass
    return total


def with_a_node_dying(cluster, what, total, moved, work, node=NODES - 1):
    """Does `work` while a node is killed after a quarter of `total` bytes and is back after half of them.

    `moved` tells how many bytes have arrived. Prints what was moved before, while and after.
    """
    failure, ended = [], threading.Event()

    def run():
        try:
            work()
        except BaseException as error:  # noqa: BLE001, it is raised again below
            failure.append(error)
        ended.set()

    worker = threading.Thread(target=run)
    worker.start()
    began = time.monotonic()
    try:
        wait_for(f"{what}: a quarter being moved", lambda: ended.is_set() or moved() >= total // 4, 300)
        before, is_early = moved(), ended.is_set()
        cluster.kill(node)
        wait_for(f"{what}: half being moved", lambda: ended.is_set() or moved() >= total // 2, 300)
        until, was_running = moved(), not ended.is_set()
        cluster.start(node)
        wait_for(f"node {node} coming back", lambda: cluster.is_ready(node))
    finally:
        worker.join()
    if failure:
        raise failure[0]
    after = moved()
    print(f"{what}: node {node} dead in between; moved {before / MIB:.1f} MiB before, {(until - before) / MIB:.1f} "
          f"MiB while, {(after - until) / MIB:.1f} MiB after, in {time.monotonic() - began:.1f} s", flush=True)
    if is_early or until <= before or not was_running or after <= until:
        raise AssertionError(f"{what}: the node was not dead in the middle of the transfer")


class Tools:
    """Commands of clients, run with an environment of their own; output is shown when they fail."""

    def __init__(self, cluster, folder, binaries):
        self.cluster, self.folder, self.binaries = cluster, pathlib.Path(folder), binaries
        self.environment = clean_environment(
            HOME=str(folder), AWS_ACCESS_KEY_ID=KEYS["all"][0], AWS_SECRET_ACCESS_KEY=KEYS["all"][1],
            AWS_DEFAULT_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true", AWS_MAX_ATTEMPTS="10",
            RESTIC_PASSWORD="rehearsal", RESTIC_CACHE_DIR=str(self.folder / "cache"),
            PATH=binaries + os.pathsep + os.environ["PATH"])

    def run(self, *command, **more):
        done = subprocess.run([str(word) for word in command], env={**self.environment, **more},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=600)
        if done.returncode:
            raise AssertionError(f"{command[0]} {command[1]} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def has(self, name):
        return shutil.which(name, path=self.environment["PATH"]) is not None

    def stored(self, bucket):
        """Tells how many bytes a bucket holds, open uploads included."""
        import boto3
        from botocore.config import Config
        config = Config(s3={"addressing_style": "path"}, region_name="us-east-1", proxies={},
                        retries={"mode": "standard", "total_max_attempts": 10})
        s3 = boto3.client("s3", endpoint_url=self.cluster.endpoints[0], aws_access_key_id=KEYS["all"][0],
                          aws_secret_access_key=KEYS["all"][1], config=config)

        def moved():
            # Uploads before objects, and a key counts once: an upload may still be listed beside what it became.
            held = {}
            for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
                try:
                    parts = s3.list_parts(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                except s3.exceptions.NoSuchUpload:
                    continue
                size = sum(it["Size"] for it in parts.get("Parts", []))
                held[upload["Key"]] = max(size, held.get(upload["Key"], 0))
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                held.update((it["Key"], it["Size"]) for it in page.get("Contents", []))
            return sum(held.values())
        return s3, moved
