"""Decodes a folder on a cluster of two Ray nodes on this machine, and kills a worker, or with --node a whole node, in the middle.

    python tests/python/on_ray.py FOLDER DBC OUT [--node]

The last line that it prints is a JSON object: how many workers or nodes were killed, and how many tasks were begun again.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import ray
from candor import distributed
from ray.cluster_utils import Cluster


# The task in which it happens.
LAST_WORDS = "drive5.log"
PATIENCE_S = 60


def kill_node(cluster, nodes, notes):
    """Kills the node whose number a task has written."""
    deadline = time.monotonic() + PATIENCE_S
    while not (notes / "victim").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    victim = (notes / "victim").read_text()
    cluster.remove_node(next(node for node in nodes if node.node_id == victim), allow_graceful=False)


def main(folder, dbc, out, *options):
    """Decodes, and says what happened."""
    notes = pathlib.Path(tempfile.mkdtemp())
    task = distributed._run

    def noted(settings, recording):
        # A file for each time that a task is begun.
        (notes / f"{os.getpid()}-{os.urandom(4).hex()}").write_text(recording)
        if recording.endswith(LAST_WORDS) and not (notes / "victim").exists():
            (notes / "part").write_text(ray.get_runtime_context().get_node_id())
            (notes / "part").rename(notes / "victim")
            if not options:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(PATIENCE_S)
        return task(settings, recording)

    distributed._run = noted
    # What the program itself needs of Ray is on a node that runs no task, and stays.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    if options:
        threading.Thread(target=kill_node, args=(cluster, nodes, notes), daemon=True).start()
    manifest = distributed.decode(folder, dbc, out, on="ray")
    ray.shutdown()
    cluster.shutdown()
    begun = [path for path in notes.iterdir() if path.name != "victim"]
    tasks = len(manifest["parts"]) + len(manifest["passed_over"])
    print(json.dumps({"killed": int((notes / "victim").exists()), "again": len(begun) - tasks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
