"""A mixture prior as an object: for the places of other packages that take something that makes variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymc as pm

from pm_dpgmm._arguments import check_choice, check_flag, check_positive, shown
from pm_dpgmm.bayes.prior.priors import FORMS, listed_dims, mixture_prior
from pm_dpgmm.mixture.mixture import Mixture
from pm_dpgmm.privacy.guarantee import seeded_mark

KIND = "pm_dpgmm.MixturePrior"


@dataclass(frozen=True, slots=True, eq=False)
class MixturePrior:
    """A mixture prior of a latent vector that does not belong to a model yet.

    It satisfies ``VariableFactory`` of pymc-extras (``dims``, ``create_variable``), so it can be a parameter of its
    ``Prior`` and be given to ``sample_prior``; and it can be called as bambi calls ``bmb.Prior("Mixture", dist=...)``.
    Post-processing: costs no privacy budget.

    Parameters
    ----------
    mixture : Mixture
        K components in D dimensions; from ``release.as_prior`` the released density, a background as one more.
    dims : str or sequence of str, optional
        As in ``mixture_prior``; the last one is the feature dimension.
    feature_names : sequence of str, optional
        Coordinate values of the feature dimension where the model has none.
    form, inflate
        As in ``mixture_prior``.
    private : bool
        False when the mixture is of a release whose noise is known; it changes nothing but what is printed.

    Raises
    ------
    TypeError, ValueError
        As in ``mixture_prior``, as far as no model is needed.

    Examples
    --------
    >>> import pymc as pm
    >>> g = Mixture([0.5, 0.5], [[0.0, 0.0], [2.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> prior = MixturePrior(g, dims="feature", feature_names=("height", "weight"))
    >>> with pm.Model() as model:
    ...     x = prior.create_variable("x")
    >>> model.named_vars_to_dims["x"], MixturePrior.from_dict(prior.to_dict()).dims
    (('feature',), ('feature',))
    """

    mixture: Mixture
    dims: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    form: str = "auto"
    inflate: float = 1.0
    private: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.mixture, Mixture):
            raise TypeError(f"mixture must be a Mixture, got {type(self.mixture).__name__}")
        check_choice(FORMS, form=self.form)
        check_positive(inflate=self.inflate)
        check_flag(private=self.private)
        for name in ("dims", "feature_names"):
            value = getattr(self, name)
            if value is not None:
                value = (value,) if isinstance(value, str) else tuple(value)
                if not value or not all(isinstance(item, str) for item in value):
                    raise TypeError(f"{name} must hold one or more names, got {shown(value)}")
                object.__setattr__(self, name, value)
        if self.feature_names is not None and len(self.feature_names) != self.mixture.n_features:
            raise ValueError(f"feature_names must have length {self.mixture.n_features}, got {self.feature_names}")

    def __repr__(self) -> str:
        told = ("mixture", "dims", "feature_names", "form", "inflate")
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in told)
        return f"MixturePrior({parts}{seeded_mark(self.private)})"

    def __deepcopy__(self, memo: object) -> MixturePrior:
        return self  # nothing of it can change

    def create_variable(self, name: str, xdist: bool = False) -> Any:
        """Add the variable to the model on the context stack; with ``xdist`` as a variable with named dimensions."""
        check_flag(xdist=xdist)
        if xdist and self.dims is None:
            raise ValueError("dims must be given for a variable with named dimensions, got None")
        variable = self._vector(name, self.dims)
        if not xdist:
            return variable
        from pytensor.xtensor import as_xtensor

        return as_xtensor(variable, dims=self.dims)

    def __call__(
        self, name: str, *, dims: str | Sequence[str] | None = None, shape: Any = None, **parameters: Any
    ) -> Any:
        """Add the variable as bambi asks for it: ``dims`` are those of the term.

        The last dimension of a term, its levels or columns, is the feature dimension. With one feature a term has none:
        every entry is a value of its own, as for varying intercepts.
        """
        if parameters or shape is not None:
            given = ", ".join([*parameters, *(["shape"] if shape is not None else [])])
            raise TypeError(f"a mixture prior takes a name and dims only, got {given} as well")
        names = () if dims is None else listed_dims(dims)
        if self.mixture.n_features > 1:
            return self._vector(name, names or self.dims)
        # the feature dimension has a name of its own, so that two such terms do not share its coordinates
        vector = self._vector(f"{name}_vector", (*names, f"{name}_feature"))
        return pm.Deterministic(name, vector[..., 0], dims=names or None)

    def _vector(self, name: str, dims: tuple[str, ...] | None) -> Any:
        return mixture_prior(
            name, self.mixture, feature_names=self.feature_names, dims=dims, form=self.form, inflate=self.inflate
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form; the inverse is :meth:`from_dict`."""
        return {
            "class": KIND,
            "data": {
                "weights": self.mixture.weights.tolist(),
                "means": self.mixture.means.tolist(),
                "covariances": self.mixture.covariances.tolist(),
                "dims": None if self.dims is None else list(self.dims),
                "feature_names": None if self.feature_names is None else list(self.feature_names),
                "form": self.form,
                "inflate": self.inflate,
                "private": self.private,
            },
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> MixturePrior:
        """Inverse of :meth:`to_dict`; ValueError names what is wrong with the fields."""
        if not is_mixture_prior(fields):
            raise ValueError(f"a mixture prior must have class {KIND!r}, got {shown(fields)}")
        data = dict(fields["data"])
        try:
            mixture = Mixture(data.pop("weights"), data.pop("means"), data.pop("covariances"))
            return cls(mixture, **data)
        except KeyError as error:
            raise ValueError(f"a mixture prior must have the field {error.args[0]!r}, got {sorted(data)}") from None
        except TypeError as error:  # an unknown field, or one that is no number
            raise ValueError(f"a mixture prior must have the fields of to_dict(), got {shown(data)}: {error}") from None

    @classmethod
    def register(cls) -> None:
        """Let ``pymc_extras.deserialize.deserialize`` read what :meth:`to_dict` wrote; needs pymc-extras."""
        from pymc_extras.deserialize import register_deserialization

        register_deserialization(is_mixture_prior, cls.from_dict)


def is_mixture_prior(fields: object) -> bool:
    """Whether ``fields`` look like those of :meth:`MixturePrior.to_dict`."""
    return isinstance(fields, Mapping) and fields.get("class") == KIND and isinstance(fields.get("data"), Mapping)
