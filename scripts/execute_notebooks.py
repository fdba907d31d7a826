"""Executes notebooks and compares with the outputs they are stored with; scripts/notebooks calls it in an environment that has what they need."""

import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
LIMIT = 600  # seconds for a cell; a busy machine is slow
SIZE = 200_000  # bytes of a stored notebook
NUMBER = re.compile(r"-?\d+\.\d+")
# Coordinates of pictures may differ by this: processors round differently.
CLOSE = 0.5

# Pictures are the same whenever they are made, and their text is text.
STYLE = "svg.fonttype: none\nsvg.hashsalt: pktgen\n"
KERNEL = ["--log-level=ERROR", "--InlineBackend.figure_formats=svg"]


def plain(output):
    """An output without what differs between executions: metadata, pictures' descriptions in words, progress that is over."""
    output = dict(output)
    output.pop("metadata", None)
    output.pop("transient", None)
    if "data" in output:
        data = dict(output["data"])
        if data.get("text/html") == "":
            return None
        if "image/svg+xml" in data:
            data.pop("text/plain", None)
        output["data"] = data
    return output


def outputs(cell):
    return [kept for kept in map(plain, cell.get("outputs", [])) if kept is not None]


def same(a, b):
    """Are these outputs the same, pictures within a pixel?"""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) if key == "image/svg+xml" else same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def close(a, b):
    numbers = zip(NUMBER.findall(a), NUMBER.findall(b))
    return NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(abs(float(x) - float(y)) <= CLOSE for x, y in numbers)


def differences(stored, fresh):
    """Cells whose outputs are others, in words."""
    cells = [(was, now) for was, now in zip(stored.cells, fresh.cells) if now.cell_type == "code"]
    return "\n".join(
        f"cell {place}: its outputs are not those that are stored; review them and run scripts/notebooks --update:\n{now.source}\n{outputs(now)}"
        for place, (was, now) in enumerate(cells, 1)
        if was.execution_count != now.execution_count or not same(outputs(was), outputs(now))
    )


def keep(path, book):
    """Stores a notebook with its outputs."""
    import nbformat

    for cell in book.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict({**output, **({} if output["output_type"] == "stream" else {"metadata": {}})}) for output in outputs(cell)]
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    nbformat.write(book, path)


def execute(path, update):
    import nbformat
    from nbclient import NotebookClient

    start, stored = time.monotonic(), nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    book = nbformat.from_dict(stored)
    # The kernel listens on the loopback interface and takes what is signed with the key of this execution; it warns of that.
    with tempfile.TemporaryDirectory(prefix="pktgen-notebook-") as place:
        try:
            where = {"metadata": {"path": place}}
            # What is printed comes in pieces of any size.
            NotebookClient(
                book, timeout=LIMIT, kernel_name="python3", resources=where, extra_arguments=KERNEL, coalesce_streams=True
            ).execute()
        except Exception as error:  # whatever a cell raises, a kernel that dies, a limit
            return path.name, time.monotonic() - start, str(error)
    if update:
        keep(path, book)
    problem = None if update else differences(stored, book)
    if not problem and path.stat().st_size > SIZE:
        problem = f"it has {path.stat().st_size} bytes, more than {SIZE}: show less"
    return path.name, time.monotonic() - start, problem


def main():
    words = sys.argv[1:]
    update = "--update" in words
    paths = [FOLDER / name for name in words if name != "--update"] or sorted(FOLDER.glob("*.ipynb"))
    if not paths:
        raise SystemExit("notebooks: there are none")
    bad = 0
    with tempfile.NamedTemporaryFile("w", suffix="matplotlibrc") as style, ThreadPoolExecutor(2) as pool:
        style.write(STYLE)
        style.flush()
        os.environ.update(
            MATPLOTLIBRC=style.name, MPLBACKEND="module://matplotlib_inline.backend_inline", PYTHONDONTWRITEBYTECODE="1", SOURCE_DATE_EPOCH="0"
        )
        for name, seconds, problem in pool.map(lambda path: execute(path, update), paths):
            print(f"{name}: {'FAILED' if problem else 'executed'} in {seconds:.1f} s", flush=True)
            if problem:
                bad += 1
                print(problem, file=sys.stderr)
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
