"""The paper's first experiment: 5×5 grid, ±1, parameters and prior N(0, 0.25 I); CVM (23) against exact HMC.

DESIGN's table, means of 2-3 models: BL-MP 1719, 1472, 482, 244 and BL-BP 1854, 16,982, 83,057, 168,474 at
N = 10, 100, 1000, 5000. Models differ by chance, so one is held to a factor of 3 of the table, and to its ordering.

``python tests/test_first_experiment.py`` prints the table of both tests over five models.
"""

import numpy as np
import pytest

import bayesfield as bf
import paper

TABLE = {10: (1719, 1854), 100: (1472, 16_982), 1000: (482, 83_057), 5000: (244, 168_474)}
PRIOR = bf.Normal(variance=0.25)
PLAIN = [{"engine": bf.Exact(), "response": bf.Bethe()}, {"engine": bf.Bethe()}]
CORRECTED = [{"engine": bf.Kikuchi(), "correction": "variational"}, {"engine": bf.Sampled()}]


def scores(n, seed, settings):
    field = bf.grid(5, 5)
    rng = np.random.default_rng([seed, n])
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), n, rng)
    found, fits = paper.scores(field, X, PRIOR, settings, rng)
    assert all(f.record.status.converged for f in fits)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n", TABLE)
def test_lands_on_the_table(n, capsys):
    floor, bl_mp, bl_bp = np.mean([scores(n, seed, PLAIN) for seed in range(2)], axis=0)
    with capsys.disabled():
        print(f"\nN = {n}: floor {floor:.0f}, BL-MP {bl_mp:.0f}, BL-BP {bl_bp:.0f}; table {TABLE[n]}")
    assert 20 < floor < 120  # two exact sets: 65 × 2/3 = 43, more with what autocorrelation is left
    for got, wanted in zip((bl_mp, bl_bp), TABLE[n], strict=True):
        assert wanted / 3 < got < wanted * 3
    assert bl_mp < bl_bp


@pytest.mark.slow
@pytest.mark.parametrize("n", TABLE)
def test_corrections_come_down_to_the_floor(n, capsys):
    """Plaquettes with the variational correction, and sampling as it comes: no exact inference in either."""
    floor, kikuchi, sampled = scores(n, 3, CORRECTED)
    with capsys.disabled():
        print(f"\nN = {n}: floor {floor:.0f}, Kikuchi variational {kikuchi:.0f}, Sampled {sampled:.0f}")
    assert kikuchi < 3 * max(floor, 40)
    assert sampled < 6 * max(floor, 40)


def main():
    print("N, model: floor, BL-MP, BL-BP, Kikuchi + variational, Sampled")
    for n in TABLE:
        found = []
        for seed in range(5):
            found.append(scores(n, seed, PLAIN + CORRECTED))
            print(f"{n}, {seed}:", *(f"{x:.0f}" for x in found[-1]), flush=True)
        print(f"{n}, mean:", *(f"{x:.0f}" for x in np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    main()
