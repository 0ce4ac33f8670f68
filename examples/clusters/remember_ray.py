#!/usr/bin/env python3
"""Converts a checkpoint with the workers of a Ray cluster: remember_ray.py PARTS MODEL -o OUTPUT [OPTION...].

Model and output lie on a file system that all nodes have. A part that fails, or whose node is lost, is done again by another
worker; what it had finished stays. AMN names the program where it is not on the path.
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
