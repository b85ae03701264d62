"""What options may be."""

from enum import StrEnum


class Task(StrEnum):
    PR = "PR"
    MAR = "MAR"
    MPE = "MPE"


class Method(StrEnum):
    auto = "auto"
    exact = "exact"
    kikuchi = "kikuchi"
    bethe = "bethe"
    sampled = "sampled"


class Learner(StrEnum):
    auto = "auto"
    newton = "newton"
    lbfgs = "lbfgs"
    pseudo_likelihood = "pseudo_likelihood"
    cd = "cd"
    pcd = "pcd"
    iterative_scaling = "iterative_scaling"
    pseudo_moments = "pseudo_moments"


class Correction(StrEnum):
    auto = "auto"
    none = "none"
    mean = "mean"
    variational = "variational"
    draws = "draws"
    profile = "profile"


class Decoding(StrEnum):
    labels = "labels"
    f1 = "f1"


class FigureName(StrEnum):
    fig2 = "fig2"
    fig3 = "fig3"
    fig4 = "fig4"
    fig5 = "fig5"
    fig6 = "fig6"
    fig7 = "fig7"
    fig8 = "fig8"
    faq = "faq"
    ocr = "ocr"
    all = "all"


class ScaleName(StrEnum):
    quick = "quick"
    paper = "paper"


class Model(StrEnum):
    ising = "ising"
    potts = "potts"
    ordinal = "ordinal"
    crf = "crf"
