"""Word embeddings by negative sampling: two tables of rows, of which an iteration touches few."""

import numpy as np


class Corpus:
    """Words as numbers, most frequent first, so that small keys are hot; and how often each is drawn as a negative."""

    def __init__(self, verses):
        words = [verse.split() for verse in verses]
        counts = {}
        for verse in words:
            for word in verse:
                counts[word] = counts.get(word, 0) + 1
        order = sorted(counts, key=lambda word: (-counts[word], word))
        number = {word: i for i, word in enumerate(order)}
        self.size = len(order)
        self.verses = [np.array([number[word] for word in verse]) for verse in words]
        chances = np.array([counts[word] for word in order]) ** 0.75
        self.chances = np.cumsum(chances / chances.sum())

    def batch(self, rng, shard, shards, pairs, negatives):
        """(centre, context, negatives) of random places in every `shards`-th verse, from number `shard` on."""
        centre, context = np.empty(pairs, int), np.empty(pairs, int)
        for i in range(pairs):
            verse = self.verses[shard + shards * int(rng.integers((len(self.verses) - shard - 1) // shards + 1))]
            at = int(rng.integers(len(verse)))
            near = [j for j in range(max(0, at - 2), min(len(verse), at + 3)) if j != at]
            centre[i], context[i] = verse[at], verse[near[int(rng.integers(len(near)))]]
        drawn = np.searchsorted(self.chances, rng.random((pairs, negatives)))
        return centre, context, drawn


class Embeddings:
    """The two tables, centre words' before contexts', and the step that AdaGrad makes on the rows it is given."""

    def __init__(self, size, width, rng):
        self.size, self.width = size, width
        self.rows = np.concatenate([rng.normal(size=(size, width)) / width, np.zeros((size, width))])
        self.squares = np.zeros_like(self.rows)

    def gradient(self, batch):
        """Mean loss of the pairs, the rows that it touches, and the gradient of each."""
        centre, context, drawn = batch
        others = np.concatenate([context[:, None], drawn], axis=1) + self.size
        wanted = np.zeros(others.shape)
        wanted[:, 0] = 1
        at_centre, at_others = self.rows[centre], self.rows[others]
        scores = np.einsum("pd,pod->po", at_centre, at_others)
        signs = np.where(wanted == 1, 1.0, -1.0)
        loss = np.logaddexp(0, -signs * scores).sum(axis=1).mean()
        errors = 1 / (1 + np.exp(-scores)) - wanted
        parts = np.concatenate(
            [np.einsum("po,pod->pd", errors, at_others), (errors[:, :, None] * at_centre[:, None]).reshape(-1, self.width)]
        )
        rows, where = np.unique(np.concatenate([centre, others.reshape(-1)]), return_inverse=True)
        sums = np.zeros((len(rows), self.width))
        np.add.at(sums, where, parts)
        return loss, rows, sums

    def step(self, rows, gradient, rate):
        """Moves the rows by a gradient."""
        self.squares[rows] += gradient**2
        self.rows[rows] -= rate * gradient / np.sqrt(self.squares[rows] + 1e-8)

    def keys(self, rows):
        """A key for each number of the rows."""
        return (rows[:, None] * self.width + np.arange(self.width)).reshape(-1)
