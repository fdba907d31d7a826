"""A gradient held against differences of the loss."""

import numpy as np


def worst(loss, weights, gradient, rng, tries=60, step=1e-6):
    """The largest error of a slope among some random entries, relative to the largest slope."""
    errors = []
    for i in rng.choice(weights.size, tries, replace=False):
        up, down = weights.copy(), weights.copy()
        up.flat[i] += step
        down.flat[i] -= step
        errors.append(abs((loss(up) - loss(down)) / (2 * step) - gradient.flat[i]))
    return max(errors) / np.abs(gradient).max()
