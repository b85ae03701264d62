"""Why LV-CD does not come out behind BL-BP on few cases: its score by step size and by Gibbs sweeps.

The paper does not state its step size. CVM against NUTS (10,000 draws each), mean over models, with BL-BP's beside it.

    python experiments/langevin_step.py --cases 10 --models 5
"""

import argparse

import numpy as np

import bayesfield as bf
from bayesfield.diagnostics import autocorrelation_time, cramer_von_mises
from bayesfield.experiments.paper.cases import Case

DRAWS, CHAINS = 10_000, 5
SETTINGS = [(0.15, 1), (0.45, 1), (0.9, 1), (1.2, 1), (0.45, 3), (0.45, 10)]  # step, sweeps


def scores(cases: int, model: int) -> list[float]:
    """CVM of each setting, then of BL-BP."""
    field, X, prior = Case("fig2", cases, model).make(0)
    shape = bf.fit(field, X, prior, bf.Exact(), correction="none")
    truth = bf.sample_posterior(field, X, prior, n_draws=DRAWS // CHAINS, chains=CHAINS, shape=shape).flat
    found = []
    for step, sweeps in SETTINGS:
        thin = int(np.ceil(4 / step**2))
        sampler = bf.Langevin(sweeps=sweeps, step=step)
        draws = bf.sample_posterior(
            field, X, prior, sampler, n_draws=DRAWS // CHAINS, chains=CHAINS, thin=thin, shape=shape, rng=model
        )
        assert autocorrelation_time(draws.values).mean() < 3
        found.append(float(cramer_von_mises(truth, draws.flat).sum()))
    bethe = bf.fit(field, X, prior, bf.Bethe(), correction="none").sample(DRAWS, model)
    return [*found, float(cramer_von_mises(truth, bethe).sum())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--models", type=int, default=5)
    asked = parser.parse_args()
    mean = np.mean([scores(asked.cases, model) for model in range(asked.models)], axis=0)
    for (step, sweeps), score in zip(SETTINGS, mean, strict=False):
        print(f"LV-CD, step {step}, {sweeps} sweeps: {score:,.0f}")
    print(f"BL-BP: {mean[-1]:,.0f}")


if __name__ == "__main__":
    main()
