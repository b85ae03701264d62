"""The command line: parse, call, write. One file for the commands that belong together."""

from bayesfield.cli.app import app
from bayesfield.cli.converting import convert
from bayesfield.cli.ending import main
from bayesfield.cli.fields import compare, fit, infer
from bayesfield.cli.labelling import label
from bayesfield.cli.options import Learner
from bayesfield.cli.saved import check, edges, impute, predict, report, sample
from bayesfield.cli.studies import bench, calibrate, reproduce
from bayesfield.cli.upkeep import doctor, warmup

__all__ = [
    "Learner",
    "app",
    "bench",
    "calibrate",
    "check",
    "compare",
    "convert",
    "doctor",
    "edges",
    "fit",
    "impute",
    "infer",
    "label",
    "main",
    "predict",
    "report",
    "reproduce",
    "sample",
    "warmup",
]
