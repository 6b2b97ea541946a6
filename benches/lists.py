#!/usr/bin/env python3
"""Times the lists of a home with 100 tasks and 100 conversations, copies of those in a recorded home: `benches/lists.py NEXUS...`.

Each NEXUS is a path of the `nexus` command. Prints the median and the fastest wall time of each list, and of `nexus --version` beside it.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

NUMBER, ROUNDS = 100, 30
RECORDED = pathlib.Path(__file__).parent.parent / "crates/nexus-cli/tests/recorded/home-16c3db7d.tar.gz"


def fill(home: pathlib.Path) -> None:
    """Copies the tasks with the longest status and the conversation `talk`."""
    tasks = home / "tasks"
    statuses = [path for path in tasks.glob("*/status.json") if json.loads(path.read_text())["kind"] == "task"]
    task = max(statuses, key=lambda path: path.stat().st_size).parent
    for number in range(NUMBER):
        name = task.name[:-3] + "".join("abcdefghij"[int(digit)] for digit in f"{number:03}")
        copy = tasks / name
        if copy.exists():
            continue
        shutil.copytree(task, copy, symlinks=True, ignore=shutil.ignore_patterns(".tree", "base"))
        status = json.loads((copy / "status.json").read_text())
        status["id"] = name
        (copy / "status.json").write_text(json.dumps(status, indent=2))
    talk = json.loads((home / "conversations/names/talk.json").read_text())
    for number in range(NUMBER):
        talk["name"] = f"talk-{number}"
        (home / f"conversations/names/talk-{number}.json").write_text(json.dumps(talk))
    for path in home.rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2, follow_symlinks=False)


def main() -> None:
    for nexus in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(RECORDED) as archive:
                archive.extractall(folder, filter="data")
            home = next(path.parent for path in pathlib.Path(folder).rglob("tasks") if (path.parent / "conversations").is_dir())
            fill(home)
            environment = {"PATH": os.environ["PATH"], "HOME": folder, "NEXUS_HOME": str(home)}
            for arguments in (["--version"], ["task", "list"], ["debate", "list"], ["conversation", "list"]):
                times = []
                for _ in range(ROUNDS + 1):
                    began = time.perf_counter()
                    done = subprocess.run([nexus, *arguments], env=environment, capture_output=True, text=True)
                    times.append((time.perf_counter() - began) * 1000)
                    assert done.returncode == 0, done.stderr
                # The first list of a home builds the index.
                first, *times = times
                lines = len(done.stdout.splitlines())
                print(f"{nexus}: {' '.join(arguments):18} {lines:3} lines, median {statistics.median(times):6.1f} ms, "
                      f"fastest {min(times):6.1f} ms, first {first:6.1f} ms")


if __name__ == "__main__":
    main()
