"""Decodes a folder on a cluster of two Ray nodes on this machine, and kills a worker in the middle.

    python tests/python/on_ray.py FOLDER DBC OUT

The last line that it prints is a JSON object: how many workers were killed, and how many tasks were begun again.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile

import ray
from candor import distributed
from ray.cluster_utils import Cluster


def main(folder, dbc, out):
    notes = tempfile.mkdtemp()
    task = distributed._run

    def noted(settings, recording):
        # A file for each time that a task is begun.
        (pathlib.Path(notes) / f"{os.getpid()}-{os.urandom(4).hex()}").write_text(recording)
        if recording.endswith("drive5.log") and not pathlib.Path(notes, "killed").exists():
            pathlib.Path(notes, "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task(settings, recording)

    distributed._run = noted
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    manifest = distributed.decode(folder, dbc, out, on="ray")
    ray.shutdown()
    cluster.shutdown()
    begun = [path for path in pathlib.Path(notes).iterdir() if path.name != "killed"]
    tasks = len(manifest["parts"]) + len(manifest["passed_over"])
    print(json.dumps({"killed": int(pathlib.Path(notes, "killed").exists()), "again": len(begun) - tasks}))


if __name__ == "__main__":
    main(*sys.argv[1:])
