"""What the recorders share: the trace schema, its file, and the manifest beside it."""

import hashlib
import json
import os
import platform

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# generator/wire/src/wire: Ethernet, IPv4 and UDP heads; the head of an update; the largest frame.
HEAD, UPDATE_HEAD, FRAME_MIN, FRAME_MAX = 42, 30, 76, 9036

# generator/workload/src/trace/schema.rs; a reader checks names and types.
SCHEMA = pa.schema(
    [
        pa.field("t_ps", pa.int64(), nullable=False),
        pa.field("cluster", pa.uint16(), nullable=False),
        pa.field("worker", pa.uint32(), nullable=False),
        pa.field("seq", pa.uint32(), nullable=False),
        pa.field("bytes", pa.uint32(), nullable=False),
        pa.field("reward", pa.float32()),
        pa.field("keys", pa.list_(pa.field("item", pa.uint64(), nullable=False))),
        pa.field("values", pa.list_(pa.field("item", pa.float32(), nullable=False))),
        pa.field("iteration", pa.uint32()),
    ],
    metadata={"pktgen.kind": "trace", "pktgen.version": "1"},
)


def frame_bytes(elements):
    """The frame that holds `elements` numbers of 32 bits, or the largest one: what is longer needs several."""
    return min(max(HEAD + UPDATE_HEAD + 4 * elements, FRAME_MIN), FRAME_MAX)


def half(values):
    """Rounded to 16-bit floats, kept as 32-bit ones: small files, and the error (at most 2^-11) is known.

    What is below 6e-8 becomes 0; whoever studies smaller values asks for `--exact`.
    """
    return np.asarray(values, np.float32).astype(np.float16).astype(np.float32)


def write_trace(path, columns, details, licence):
    """Writes `columns` (name: list; what is missing is null) as a trace, and its manifest; returns the hash."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    rows = len(columns["t_ps"])
    arrays = [pa.array(columns.get(field.name, [None] * rows), field.type) for field in SCHEMA]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    floats = ["reward", "values.list.item"]
    # Bytes of equal significance beside each other: floats shrink to half of what plain ones take.
    pq.write_table(
        table, path, compression="zstd", compression_level=19, store_schema=True,
        use_dictionary=["cluster", "worker", "bytes"], column_encoding={name: "BYTE_STREAM_SPLIT" for name in floats},
    )  # fmt: skip
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    manifest = {
        "version": 1,
        "origin": "recorded",
        "details": {key: str(value) for key, value in sorted({**details, **machine()}.items())},
        "licence": licence,
        "sha256": digest,
        "updates": rows,
    }
    with open(f"{path}.manifest.json", "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2, ensure_ascii=False)
        file.write("\n")
    return digest


def machine():
    """Versions and the class of the machine; neither its name nor where files lie on it."""
    with open(os.path.join(os.path.dirname(__file__), "requirements.txt"), encoding="utf-8") as file:
        packages = ", ".join(file.read().split())
    return {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": f"Python {platform.python_version()}, {packages}",
    }


def ps(seconds):
    """Seconds as whole picoseconds."""
    return int(round(seconds * 1e6)) * 10**6
