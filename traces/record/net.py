"""Networks of tanh layers in numpy, and their gradients by hand."""

import numpy as np


class Net:
    """Layers of tanh, then one linear layer.

    The weights are one flat vector, as they go over the wire; layers are views of it.
    """

    def __init__(self, widths):
        """`widths`: inputs, hidden layers, outputs."""
        self.shapes = list(zip(widths[:-1], widths[1:]))
        self.size = sum(rows * columns + columns for rows, columns in self.shapes)

    def initial(self, rng):
        """Random weights; the last layer's are small, so that the outputs are near 0 and all choices equally likely."""
        flat = np.zeros(self.size)
        layers = self.layers(flat)
        for i, (matrix, _) in enumerate(layers):
            scale = 0.01 if i == len(layers) - 1 else 1.0
            matrix[:] = rng.normal(size=matrix.shape) * scale / np.sqrt(matrix.shape[0])
        return flat

    def layers(self, flat):
        """(matrix, offset) of each layer, as views of `flat`."""
        found, at = [], 0
        for rows, columns in self.shapes:
            matrix = flat[at : at + rows * columns].reshape(rows, columns)
            at += rows * columns
            found.append((matrix, flat[at : at + columns]))
            at += columns
        return found

    def forward(self, layers, x):
        """Outputs, and the inputs of every layer, which the way back needs."""
        inputs = [x]
        for matrix, offset in layers[:-1]:
            inputs.append(np.tanh(inputs[-1] @ matrix + offset))
        matrix, offset = layers[-1]
        return inputs[-1] @ matrix + offset, inputs

    def backward(self, layers, inputs, d_out):
        """The flat gradient, given that of the outputs for every row."""
        gradient = np.zeros(self.size)
        grads = self.layers(gradient)
        for i in range(len(layers) - 1, -1, -1):
            grads[i][0][:] = inputs[i].T @ d_out
            grads[i][1][:] = d_out.sum(axis=0)
            if i > 0:
                d_out = (d_out @ layers[i][0].T) * (1 - inputs[i] ** 2)
        return gradient


def log_softmax(logits):
    """Logarithms of the choices' probabilities."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
