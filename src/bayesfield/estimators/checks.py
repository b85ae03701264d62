"""Which of scikit-learn's checks an estimator does not pass, and why."""

from typing import Any

_TWO_STATES = "the check's table has columns of more than two states, and this model is for two; passes with binarize="
_CHECKS_OF_MORE_STATES = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
)
_CHECKS_OF_TRANSFORMERS = (
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
)


_SEQUENCE = "rows are a sequence: what is said of one depends on the others and on their order"
_CHECKS_OF_SEQUENCES = {
    "check_methods_sample_order_invariance": _SEQUENCE,
    "check_methods_subset_invariance": _SEQUENCE,
    "check_fit1d": "a sequence of numbers, of one dimension, is a column",
}


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """For ``check_estimator(…, expected_failed_checks=…)`` of scikit-learn: checks that fail, each with its reason.

    Models of two states have some, only without ``binarize=``: the tables of the checks have up to ten states; and
    those of sequences.
    """
    if hasattr(type(estimator), "transmat_"):
        return dict(_CHECKS_OF_SEQUENCES)
    if getattr(estimator, "binarize", "none to give") is None:
        own = _CHECKS_OF_TRANSFORMERS if hasattr(estimator, "transform") else ()
        return dict.fromkeys((*_CHECKS_OF_MORE_STATES, *own), _TWO_STATES)
    return {}
