#!/usr/bin/env python3
"""Converts a checkpoint with the workers of a Ray cluster: remember_ray.py PARTS MODEL -o OUTPUT [OPTION...].

Model and output must be on a file system shared by all nodes. If a part fails or its node is lost, another worker
retries it; finished shards are kept. Set AMN to the path of the program if it is not on PATH.
"""
import os
import subprocess
import sys

import ray


@ray.remote(num_cpus=1, max_retries=3, retry_exceptions=True)
def remember(amn, arguments, part, parts):
    own = ["--part", f"{part}/{parts}", "--threads", "1", "--quiet"]
    subprocess.run([amn, "remember", *arguments, *own], check=True)
    return part


def main():
    parts, arguments = int(sys.argv[1]), sys.argv[2:]
    amn = os.environ.get("AMN", "amn")
    ray.init()
    waiting = [remember.remote(amn, arguments, part, parts) for part in range(1, parts + 1)]
    while waiting:
        done, waiting = ray.wait(waiting)
        print(f"part {ray.get(done[0])} of {parts} is written", flush=True)


if __name__ == "__main__":
    main()
