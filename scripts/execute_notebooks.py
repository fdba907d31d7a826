"""Executes notebooks, each within a time limit; scripts/notebooks calls it in an environment that has what they need."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LIMIT = 120  # seconds for a cell; a busy machine is slow


def stored_plainly(book):
    """Outputs are made by executing; in the file they would only be large differences."""
    return all(not cell.get("outputs") and cell.get("execution_count") is None for cell in book.cells if cell.cell_type == "code")


def execute(path):
    import nbformat
    from nbclient import NotebookClient

    start, book = time.monotonic(), nbformat.read(path, as_version=4)
    nbformat.validate(book)
    if not stored_plainly(book):
        return path.name, 0, "it is stored with outputs; clear them"
    # The kernel listens on the loopback interface and takes what is signed with the key of this execution; it warns of that.
    quiet, place = ["--log-level=ERROR"], {"metadata": {"path": str(FOLDER)}}
    try:
        NotebookClient(book, timeout=LIMIT, kernel_name="python3", resources=place, extra_arguments=quiet).execute()
    except Exception as error:  # whatever a cell raises, a kernel that dies, a limit
        return path.name, time.monotonic() - start, str(error)
    return path.name, time.monotonic() - start, None


def main():
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", MPLBACKEND="module://matplotlib_inline.backend_inline")
    paths = [FOLDER / name for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb"))
    if not paths:
        raise SystemExit("notebooks: there are none")
    bad = 0
    with ThreadPoolExecutor(2) as pool:
        for name, seconds, problem in pool.map(execute, paths):
            print(f"{name}: {'FAILED' if problem else 'executed'} in {seconds:.1f} s", flush=True)
            if problem:
                bad += 1
                print(problem, file=sys.stderr)
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
