"""Linear chains: labels of highest score, by Viterbi's algorithm."""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit


def decode(F: np.ndarray, v: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the (N,) labels of highest score, sequence by sequence.

    Parameters
    ----------
    F : (N, K) scores of positions
    v : (K * K,) explicit weights; entry (a, b) is for b after a
    starts : as of :class:`~workbench.sampled_cuts.tasks.Chain`
    """
    labels, K = np.empty(len(F), np.int32), F.shape[1]
    viterbi(F, v.reshape(K, K), starts, labels, 0.0, labels)
    return labels


@njit(cache=True, nogil=True, error_model="numpy")
def viterbi(F, moves, starts, y, loss, labels):
    """Fill `labels` with the path of highest score, which gains `loss` wherever it is
    not `y`."""
    K = F.shape[1]
    longest = 0
    for i in range(len(starts) - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    best, here = np.empty(K), np.empty(K)
    back = np.empty((longest, K), np.int32)
    for i in range(len(starts) - 1):
        first, last = starts[i], starts[i + 1]
        for t in range(first, last):
            for b in range(K):
                score = F[t, b]
                if loss > 0.0 and b != y[t]:
                    score += loss
                if t > first:
                    most, source = best[0] + moves[0, b], 0
                    for a in range(1, K):
                        value = best[a] + moves[a, b]
                        if value > most:
                            most, source = value, a
                    score += most
                    back[t - first, b] = source
                here[b] = score
            for b in range(K):
                best[b] = here[b]
        label = np.argmax(best)
        for t in range(last - 1, first - 1, -1):
            labels[t] = label
            if t > first:
                label = back[t - first, label]
