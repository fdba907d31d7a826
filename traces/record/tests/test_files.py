"""The traces that are checked in: what the documentation says of them is so."""

import hashlib
import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
import pyarrow.parquet as pq

from common import SCHEMA, frame_bytes, half, write_trace

TRACES = os.path.join(os.path.dirname(__file__), "..", "..")
RECORDED = ["rl-recorded", "rl-recorded-gradients", "rl-recorded-300", "sparse-recorded", "dense-recorded"]


def table(name):
    """A checked-in trace."""
    return pq.read_table(os.path.join(TRACES, f"{name}.parquet"))


class Files(unittest.TestCase):
    def test_all_have_the_schema_and_their_hash(self):
        for name in RECORDED:
            with self.subTest(name), open(os.path.join(TRACES, f"{name}.parquet"), "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
                with open(os.path.join(TRACES, f"{name}.parquet.manifest.json"), encoding="utf-8") as about:
                    manifest = json.load(about)
                self.assertEqual(manifest["sha256"], digest)
                self.assertEqual(table(name).schema.types, SCHEMA.types)

    def test_the_learner_learned(self):
        rows = table("rl-recorded").to_pydict()
        rewards = np.array_split(np.array(rows["reward"]), 10)
        self.assertGreaterEqual(rewards[-1].mean() - rewards[0].mean(), 100)
        counts = np.bincount(rows["worker"])
        self.assertEqual((len(counts), counts.min() >= 200), (27, True))
        self.assertEqual(len(set(rows["cluster"])), 9)

    def test_the_sample_is_of_the_same_run(self):
        whole, sample = table("rl-recorded").to_pydict(), table("rl-recorded-gradients").to_pydict()
        times = {(w, s): t for w, s, t in zip(whole["worker"], whole["seq"], whole["t_ps"])}
        for worker, number, t, values in zip(*(sample[c] for c in ("worker", "iteration", "t_ps", "values"))):
            self.assertEqual(times[worker, number], t)
            self.assertEqual(frame_bytes(len(values)), sample["bytes"][0])

    def test_keys_and_values_go_together(self):
        rows = table("sparse-recorded").to_pydict()
        for keys, values in zip(rows["keys"], rows["values"]):
            self.assertEqual(len(keys), len(values))
            self.assertEqual(keys, sorted(set(keys)))

    def test_pktgen_takes_them(self):
        pktgen = os.environ.get("PKTGEN")
        if not pktgen:
            print("SKIPPED: pktgen trace check; set PKTGEN to a binary")
            return
        for name in RECORDED:
            command = [pktgen, "-q", "trace", "check", os.path.join(TRACES, f"{name}.parquet")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def test_writing_is_reproducible(self):
        rows = {"t_ps": [0, 5], "cluster": [0, 0], "worker": [0, 1], "seq": [0, 0], "bytes": [76, 76], "values": [[1.5], None]}
        with tempfile.TemporaryDirectory() as folder:
            hashes = {write_trace(os.path.join(folder, name), rows, {}, "CC0-1.0") for name in ("a", "b")}
        self.assertEqual(len(hashes), 1)

    def test_rounding_is_to_eleven_bits(self):
        values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
        self.assertLessEqual(np.abs(half(values) / values - 1).max(), 2**-11)
