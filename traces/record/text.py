"""A real text that Debian has: the King James Version, of the packages bible-kjv and bible-kjv-text (public domain)."""

import hashlib
import os
import re
import subprocess

PACKAGES = ["bible-kjv", "bible-kjv-text"]


def verses():
    """The verses in order, in lower case without numbers, and where they come from, for a manifest."""
    folder = os.path.join(os.environ["RECORD_FILES"], "text")
    program = os.path.join(folder, "usr/bin/bible")
    if not os.path.exists(program):
        fetch(folder)
    # Lines as long as a verse; the whole book.
    command = [program, "-l9999", "-p", os.path.join(folder, "usr/lib"), "gen1:1-rev22:21"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = [re.sub(r"[^a-z ]", "", line.strip().lstrip("0123456789 ").lower()) for line in text.splitlines()]
    found = [line for line in found if len(line.split()) > 2]
    digest = hashlib.sha256("\n".join(found).encode()).hexdigest()
    with open(os.path.join(folder, "versions.txt"), encoding="utf-8") as file:
        packages = ", ".join(file.read().split("\n")[:-1])
    return found, {"text": f"King James Version, Debian {packages}", "text sha256": digest}


def fetch(folder):
    """Takes the packages apart without installing them, so that no root is needed."""
    os.makedirs(folder, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"record: {', '.join(PACKAGES)} cannot be had from apt-get download: {error}") from error
    files = sorted(name for name in os.listdir(folder) if name.endswith(".deb"))
    for name in files:
        subprocess.run(["dpkg-deb", "-x", name, "."], cwd=folder, check=True)
    with open(os.path.join(folder, "versions.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name.rsplit('_', 1)[0]}\n" for name in files)
