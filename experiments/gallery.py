"""The pictures of docs/gallery.md, from data that come with scikit-learn or are drawn here.

python experiments/gallery.py --out docs/assets/gallery
"""

import argparse
import itertools
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import bayesfield as bf

SYMPTOMS = ("sleep", "appetite", "fatigue", "mood", "interest", "guilt", "focus", "restless")


def symptoms() -> bf.Posterior:
    """A network of eight items, with couplings between neighbours in the list and a negative one."""
    pairs = list(itertools.combinations(range(8), 2))
    field = bf.pairwise(8, pairs, states=(0, 1), names=SYMPTOMS)
    rng = np.random.default_rng(4)
    strength = {(i, i + 1): 1.4 for i in range(7)} | {(0, 7): -1.2, (2, 5): 0.9}
    couplings = [strength.get(pair, 0.0) for pair in pairs]
    X = bf.sample(field, np.concatenate([rng.normal(-1.0, 0.3, 8), couplings]), 400, rng)
    return bf.IsingNetwork().fit(pd.DataFrame(X, columns=SYMPTOMS)).posterior_


def digits() -> bf.Posterior:
    """The lattice of ``make demo``: handwritten digits as ±1."""
    pictures = np.where(load_digits().data > 7, 1, -1)
    return bf.fit(bf.grid(8, 8), pictures, bf.Normal(variance=0.25), engine=bf.Kikuchi())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/assets/gallery"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    network, lattice = symptoms(), digits()
    pictures = {
        "network": network.plot_network,
        "edge-evidence": network.plot_edge_evidence,
        "inclusion": network.plot_inclusion,
        "forest": network.plot_forest,
        "marginals": network.plot_marginals,
        "centrality": network.plot_centrality,
        "sensitivity": network.plot_sensitivity,
        "calibration": network.plot_calibration,
        "predictive": network.plot_predictive,
        "convergence": network.plot_convergence,
        "lattice": lattice.plot_lattice,
        "messages": lattice.plot_messages,
    }
    for name, draw in pictures.items():
        drawn = draw()
        getattr(drawn, "figure", drawn).savefig(out / f"{name}.png", dpi=80)
        plt.close("all")
        print(out / f"{name}.png")


if __name__ == "__main__":
    main()
