"""The sparse and the dense recorder on made-up text."""

import argparse
import unittest

import numpy as np

from dense.__main__ import columns, gradient
from dense.__main__ import train as train_dense
from net import Net
from sparse.__main__ import skew
from sparse.__main__ import train as train_sparse
from sparse.model import Corpus, Embeddings
from tests.slopes import worst

VERSES = ["the wolf and the lamb", "the lamb and the lion and the child", "the child shall lead the wolf"] * 20


class Sparse(unittest.TestCase):
    ARGS = argparse.Namespace(
        workers=4, iterations=60, every=10, width=4, pairs=8, negatives=2, rate=0.2, seed=1
    )  # fmt: skip

    def test_the_loss_moves_as_the_gradient_says(self):
        rng, corpus = np.random.default_rng(1), Corpus(VERSES)
        model = Embeddings(corpus.size, 4, rng)
        model.rows = rng.normal(size=model.rows.shape)
        batch = corpus.batch(rng, 0, 4, 8, 2)
        _, rows, sums = model.gradient(batch)
        whole = np.zeros_like(model.rows)
        whole[rows] = sums

        def loss(at):
            model.rows = at
            return model.gradient(batch)[0] * 8

        self.assertLess(worst(loss, model.rows, whole, rng, tries=30), 1e-5)

    def test_frequent_words_have_small_keys(self):
        corpus = Corpus(VERSES)
        self.assertEqual(corpus.verses[0][0], 0)
        self.assertEqual(list(Embeddings(corpus.size, 4, np.random.default_rng(1)).keys(np.array([0, 2]))), [0, 1, 2, 3, 8, 9, 10, 11])

    def test_a_seed_decides_all_and_the_loss_falls(self):
        losses, rows, updates = train_sparse(self.ARGS, Corpus(VERSES))
        again, same, _ = train_sparse(self.ARGS, Corpus(VERSES))
        np.testing.assert_array_equal(losses, again)
        for one, other in zip(rows, same, strict=True):
            np.testing.assert_array_equal(one[4], other[4])
        self.assertLess(losses[-10:].mean(), losses[:10].mean() - 0.1)
        self.assertIn("100.0%" if updates.size < 10 else "%", str(skew(updates, 4)))


class Dense(unittest.TestCase):
    ARGS = argparse.Namespace(
        workers=2, iterations=80, keep="0,79", context=3, hidden=5, batch=16, rate=0.5, seed=1
    )  # fmt: skip

    def test_the_loss_moves_as_the_gradient_says(self):
        rng, net = np.random.default_rng(2), Net((12, 5, 4))
        weights, inputs, wanted = rng.normal(size=net.size), rng.normal(size=(9, 12)), rng.integers(4, size=9)
        of = lambda w: gradient(net, w, inputs, wanted)  # noqa: E731
        self.assertLess(worst(lambda w: of(w)[0], weights, of(weights)[1], rng), 1e-5)

    def test_a_seed_decides_all_and_the_loss_falls(self):
        text = np.array([0 if c == " " else ord(c) - 96 for c in " ".join(VERSES)])
        losses, rows = train_dense(self.ARGS, text)
        again, _ = train_dense(self.ARGS, text)
        np.testing.assert_array_equal(losses, again)
        self.assertLess(losses[-10:].mean(), losses[:10].mean() - 0.2)
        self.assertEqual([(row[2]) for row in rows], [0, 0, 79, 79])

    def test_long_gradients_are_cut_into_frames(self):
        values = np.arange(5000, dtype=np.float32)
        found = columns([(0.5, 3, 7, values), (0.6, 3, 8, values)])
        self.assertEqual([len(part) for part in found["values"]], [2241, 2241, 518] * 2)
        self.assertEqual(found["seq"], list(range(6)))
        self.assertEqual(found["bytes"], [9036, 9036, 42 + 30 + 4 * 518] * 2)
        np.testing.assert_array_equal(np.concatenate(found["values"][:3]), values)
