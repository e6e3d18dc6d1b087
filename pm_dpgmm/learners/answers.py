"""What a valid answer of a learner is, and how it crosses between processes: as numbers, how many is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pm_dpgmm._arguments import FloatArray
from pm_dpgmm.learners.vector_learner import LARGEST, VectorLearner
from pm_dpgmm.mixture.mixture import Mixture

Answer: TypeAlias = Mixture | FloatArray


@dataclass(frozen=True, slots=True)
class MixtureForm:
    """A mixture of K components in D columns."""

    n_components: int
    n_features: int

    @property
    def size(self) -> int:
        """Numbers of an answer."""
        k, d = self.n_components, self.n_features
        return k + k * d + k * d * d

    def checked(self, given: Any) -> Mixture:
        """A copy, checked: the learner may still hold the arrays, and a subclass may do anything when read."""
        if not isinstance(given, Mixture):
            raise TypeError(f"learner must return a Mixture, got {type(given).__name__}")
        answer = Mixture(given.weights, given.means, given.covariances)
        if answer.means.shape != (self.n_components, self.n_features):
            raise ValueError(f"learner must return {self.n_components} components, got shape {answer.means.shape}")
        return answer

    def numbers(self, answer: Answer) -> FloatArray:
        """Those of a checked answer, (size,)."""
        assert isinstance(answer, Mixture)
        return np.concatenate([answer.weights, answer.means.ravel(), answer.covariances.ravel()])

    def read(self, numbers: FloatArray) -> Mixture:
        """The answer of numbers from a process that may hold anything; ValueError if it is none."""
        k, d = self.n_components, self.n_features
        weights, means, covariances = np.split(numbers, [k, k + k * d])
        return Mixture(weights, means.reshape(k, d), covariances.reshape(k, d, d))


@dataclass(frozen=True, slots=True)
class VectorForm:
    """A vector of ``size`` numbers within LARGEST."""

    size: int

    def checked(self, given: Any) -> FloatArray:
        """A copy; ValueError unless it is such a vector."""
        answer = np.array(given, dtype=float)
        if answer.shape != (self.size,) or not (np.abs(answer) <= LARGEST).all():
            raise ValueError(
                f"learner must return {self.size} finite numbers within {LARGEST:.0e}, got shape {answer.shape}"
            )
        return answer

    def numbers(self, answer: Answer) -> FloatArray:
        """Those of a checked answer, (size,)."""
        assert isinstance(answer, np.ndarray)
        return answer

    def read(self, numbers: FloatArray) -> FloatArray:
        """The answer of numbers from a process that may hold anything; ValueError if it is none."""
        return self.checked(numbers)


def form_of(learner: Any, n_components: int, n_features: int) -> MixtureForm | VectorForm:
    """What this learner's answers must be."""
    if isinstance(learner, VectorLearner):
        return VectorForm(len(learner.names))
    return MixtureForm(n_components, n_features)
