"""Statements as they are typed, shown as formulas: Greek letters, signs, indices and exponents, in plain HTML."""

from __future__ import annotations

import re
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ",
    "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ",
    "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
SIGNS = (
    ("&lt;=&gt;", "⇔"), ("&lt;=", "≤"), ("&gt;=", "≥"), ("=&gt;", "⇒"), ("-&gt;", "→"), ("!=", "≠"), ("||", "‖"),
    ("+-", "±"),
)  # fmt: skip
_GREEK = re.compile(r"(?<![A-Za-z])(" + "|".join(GREEK) + r")(?![A-Za-z])")
# an exponent or index is one group in brackets, or a number or a few letters
_GROUP = r"(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|\{([^{}]*)\}|(-?(?:\d+(?:\.\d+)?|[A-Za-zα-ωΑ-Ω]+)(?:/\d+)?|\*))"
_POWER = re.compile(r"\^" + _GROUP)
_INDEX = re.compile(r"(?<=[A-Za-z0-9α-ωΑ-Ω)\]‖])_(?:\{([^{}]*)\}|([A-Za-z0-9α-ωΑ-Ω]+))")
_WORD = re.compile(r"(`[^`]*`|\b(?:[a-z]{2,}|n)(?:_[a-z]{2,})+\b)")  # code, and names of several words
_MINUS = re.compile(r"(?<=[\w)\]‖|>]) - (?=[\w(‖|√\[])")


def formula(text: str) -> str:
    """HTML of a statement; every letter of anybody's is escaped first."""
    parts = _WORD.split(text)
    return "".join(_named(part) if i % 2 else _formula(part) for i, part in enumerate(parts))


def _named(text: str) -> str:
    return f"<code>{escape(text.strip('`'))}</code>"


def _formula(text: str) -> str:
    laid = escape(text)
    for typed, sign in SIGNS:
        laid = laid.replace(typed, sign)
    laid = re.sub(r"\bsqrt(?=\()", "√", laid)
    laid = re.sub(r"\binfinity\b", "∞", laid)
    laid = _GREEK.sub(lambda match: GREEK[match[1]], laid)
    laid = _POWER.sub(lambda match: f"<sup>{_minus(match[1] or match[2] or match[3])}</sup>", laid)
    laid = _INDEX.sub(lambda match: f"<sub>{match[1] or match[2]}</sub>", laid)
    return _MINUS.sub(" − ", laid)


def _minus(text: str) -> str:
    return text.replace("-", "−")
