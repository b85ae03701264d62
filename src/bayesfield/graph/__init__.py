"""A field compiled to flat arrays, and what is made of them: with evidence, and with cases that have holes."""

from bayesfield.graph.cases import CaseDesign, case_design, case_energies
from bayesfield.graph.clamp import Clamped, Phase, clamp
from bayesfield.graph.compiled import CompiledField, Design, as_parameters, compiled, features, local_variances
from bayesfield.graph.condition import Conditioned, condition
from bayesfield.graph.structure import Graph, counts, pair_graph, table_entries, weighted_counts

__all__ = [
    "CaseDesign",
    "Clamped",
    "CompiledField",
    "Conditioned",
    "Design",
    "Graph",
    "Phase",
    "as_parameters",
    "case_design",
    "case_energies",
    "clamp",
    "compiled",
    "condition",
    "counts",
    "features",
    "local_variances",
    "pair_graph",
    "table_entries",
    "weighted_counts",
]
