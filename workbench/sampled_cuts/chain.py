"""Linear chains: the labels with the highest score, by Viterbi's algorithm."""

import numpy as np

from workbench.core.kinds import Array
from workbench.kernels.compiled import njit


def decode(F: Array, v: Array, starts: Array) -> Array:
    """Return the (N,) labels with the highest total score of each sequence.

    Parameters
    ----------
    F : (N, K) scores of the positions
    v : (K * K,) explicit weights; entry (a, b) is the score of label b after label a
    starts : (n + 1,) sequence i has the positions ``starts[i]:starts[i + 1]``
    """
    labels = np.empty(len(F), np.int32)
    K = F.shape[1]
    viterbi(F, v.reshape(K, K), starts, labels, 0.0, labels)
    return labels


@njit(nogil=True, error_model="numpy")
def viterbi(F, moves, starts, y, loss, labels):
    """Write the path with the highest score to `labels`; each label that differs from
    `y` adds `loss` to the score."""
    K = F.shape[1]
    longest = 0
    for i in range(len(starts) - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    best = np.empty(K)  # the best score of a path that ends at each label
    extended = np.empty(K)
    back = np.empty((longest, K), np.int32)
    for i in range(len(starts) - 1):
        first = starts[i]
        last = starts[i + 1]
        for t in range(first, last):
            for b in range(K):
                score = F[t, b]
                if loss > 0.0 and b != y[t]:
                    score += loss
                if t > first:
                    highest = best[0] + moves[0, b]
                    source = 0
                    for a in range(1, K):
                        value = best[a] + moves[a, b]
                        if value > highest:
                            highest = value
                            source = a
                    score += highest
                    back[t - first, b] = source
                extended[b] = score
            for b in range(K):
                best[b] = extended[b]
        label = np.argmax(best)
        for t in range(last - 1, first - 1, -1):
            labels[t] = label
            if t > first:
                label = back[t - first, label]
