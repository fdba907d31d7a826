"""What scripts/figures and scripts/evidence share: reports of experiments, tables of markdown, blocks of pages that are written."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def model(folder):
    """The report of the runs in `folder`, as `report.json` has it."""
    return json.loads((folder / "report.json").read_text())


def cells(report):
    """Labels of each row, with its cells by metric."""
    keys = [column["key"] for column in report["columns"]]
    return [(row["labels"], dict(zip(keys, row["cells"]))) for row in report["rows"]]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def replaced(text, begin, end, block):
    """The page with what stands between its marks replaced."""
    head, rest = text.split(begin, 1)
    return f"{head}{begin}\n\n{block}\n\n{end}{rest.split(end, 1)[1]}"
