"""Classifiers: multi-class SVMs whose labels can be explained, on columns, kernel features or words."""

from tellwhy.classifiers.crammer_singer import CrammerSingerSVM
from tellwhy.classifiers.kernel_basis_classifier import KernelBasisClassifier
from tellwhy.classifiers.lee_lin_wahba import LeeLinWahbaSVM
from tellwhy.classifiers.model_io import load
from tellwhy.classifiers.one_vs_rest import OneVsRestSVM
from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.classifiers.weston_watkins import WestonWatkinsSVM

__all__ = [
    "CrammerSingerSVM",
    "KernelBasisClassifier",
    "LeeLinWahbaSVM",
    "OneVsRestSVM",
    "TextClassifier",
    "WestonWatkinsSVM",
    "load",
]
