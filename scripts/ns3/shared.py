"""ns-3's side of the comparisons: how it is installed and compiled, and what both scripts need to run and to show."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "target" / "ns3"
MODULES = ["ns3-internet", "ns3-point-to-point", "ns3-network", "ns3-core"]


def fail(code, text):
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr)
    sys.exit(code)


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **more):
    """Runs a command and returns what it printed; its failure is ours."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        fail(1, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def have_ns3():
    if not (shutil.which("pkg-config") and shutil.which("g++")):
        return False
    return subprocess.run(["pkg-config", "--exists", *MODULES]).returncode == 0


def need_ns3():
    if have_ns3():
        return
    if not shutil.which("apt-get"):
        fail(3, "ns-3 is missing and there is no apt-get; install ns-3's headers (3.37 is known to work), "
                "g++ and pkg-config")
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    if sudo and not shutil.which("sudo"):
        fail(3, "ns-3 is missing; install it as root: apt-get install libns3-dev g++ pkg-config")
    say("installing libns3-dev, g++ and pkg-config with apt: the other simulator")
    for command in (["apt-get", "update", "-qq"],
                    ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "libns3-dev", "g++", "pkg-config"]):
        whole = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", *command]
        done = subprocess.run(whole, capture_output=True, text=True)
        if done.returncode != 0:
            fail(3, f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    if not have_ns3():
        fail(3, "libns3-dev is installed and pkg-config does not know it")


def flags(kind):
    """What pkg-config says, less what Debian's files get wrong: libraries by paths that other packages own
    (libgsl.so), which nobody here calls, and an include path with a semicolon."""
    found = run(["pkg-config", kind, *MODULES]).split()
    good = ("-l", "-L") if kind == "--libs" else ("-I", "-D")
    return list(dict.fromkeys(flag for flag in found if flag.startswith(good) and not flag.endswith(";")))


def build(name):
    """Compiles one of the two programs, if it is not."""
    need_ns3()
    source, program = HERE / f"{name}.cc", BUILD / name
    newest = max(path.stat().st_mtime for path in [source, *HERE.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        say(f"compiling {name}.cc")
        BUILD.mkdir(parents=True, exist_ok=True)
        run(["g++", "-std=c++17", "-O3", "-Wall", *flags("--cflags"), "-o", program, source, *flags("--libs")])
    return program


def show(title, head, rows):
    print(f"\n{title}\n")
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        print("  " + "  ".join(cells).rstrip())
    sys.stdout.flush()


def pinned(command, count=1):
    """Runs on so many cores alone; returns seconds of the whole process and what it printed."""
    cores = sorted(os.sched_getaffinity(0))[-count:]
    start = time.monotonic()
    printed = run(command, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return time.monotonic() - start, printed
