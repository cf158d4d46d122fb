"""Classifiers: multi-class SVMs whose labels can be explained, on columns, kernel features or words."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.classifiers.chosen_c import ChosenC as ChosenC, choose_c as choose_c
    from tellwhy.classifiers.kernel_basis_classifier import KernelBasisClassifier as KernelBasisClassifier
    from tellwhy.classifiers.label_tree import LabelTreeSVM as LabelTreeSVM, PathStep as PathStep
    from tellwhy.classifiers.loading import load as load
    from tellwhy.classifiers.out_of_fold import (
        OutOfFold as OutOfFold,
        label_out_of_fold as label_out_of_fold,
    )
    from tellwhy.classifiers.svm.lee_lin_wahba import (
        LeeLinWahbaSVM as LeeLinWahbaSVM,
        OneVsRestSVM as OneVsRestSVM,
    )
    from tellwhy.classifiers.svm.weston_watkins import (
        CrammerSingerSVM as CrammerSingerSVM,
        WestonWatkinsSVM as WestonWatkinsSVM,
    )
    from tellwhy.classifiers.text_classifier import TextClassifier as TextClassifier

_PLACES = {
    "ChosenC": "chosen_c",
    "CrammerSingerSVM": "svm.weston_watkins",
    "KernelBasisClassifier": "kernel_basis_classifier",
    "LabelTreeSVM": "label_tree",
    "LeeLinWahbaSVM": "svm.lee_lin_wahba",
    "OneVsRestSVM": "svm.lee_lin_wahba",
    "OutOfFold": "out_of_fold",
    "PathStep": "label_tree",
    "TextClassifier": "text_classifier",
    "WestonWatkinsSVM": "svm.weston_watkins",
    "choose_c": "chosen_c",
    "label_out_of_fold": "out_of_fold",
    "load": "loading",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
