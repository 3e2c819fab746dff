"""The mean of a Gaussian mixture fitted to one class, as FedGMKD's paper describes it.

The weighted mean of component means is the mean of the sample after every EM step, so this gives
what a plain mean gives, to rounding. It is here to show that, and for those who want the paper's
words.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Generator, Tensor

MOST_COMPONENTS = 6


def mixture_mean(features: Tensor, generator: Generator) -> Tensor:
    """Σ π_m μ_m [D] of the mixture with the lowest BIC for features [n, D], n >= 1.

    Features are standardised first and the result is taken back to their space. The covariance is
    full where there are as many examples as features, and diagonal otherwise.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    if len(features) == 1:
        return features[0].float()
    values = features.double().numpy()
    centre, scale = values.mean(0), values.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    standard = (values - centre) / scale
    form = "full" if len(values) >= values.shape[1] else "diag"
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    best, lowest = None, np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # few points, or equal ones
        for components in range(1, min(len(values), MOST_COMPONENTS) + 1):
            mixture = GaussianMixture(components, covariance_type=form, random_state=seed)
            score = mixture.fit(standard).bic(standard)
            if best is None or score < lowest:
                best, lowest = mixture, score
    assert best is not None
    return torch.from_numpy(centre + scale * (best.weights_ @ best.means_)).float()
