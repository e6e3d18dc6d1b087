"""Words of the report, each in a sentence or two."""

from __future__ import annotations

GLOSSARY = {
    "(ε, δ)-differential privacy": "Whatever one record says, no result becomes more likely by more than a factor of "
    "exp(ε), apart from a probability of δ. It is called pure where δ = 0.",
    "audit": "Runs of a mechanism on two data sets that differ in one record, and a search for what tells them apart. "
    "What is found is certified on fresh runs; what is not found proves nothing.",
    "broken, sound": "A mechanism is broken if its true epsilon at the claimed delta is above the claimed one.",
    "certified": "A lower bound of the true epsilon, wrong with at most the stated probability of error.",
    "claim": "A statement of a paper, or of this project, with a check that looks for the worst case.",
    "component": "One of the Gaussian laws that make up a mixture, with its weight.",
    "contrast": "A statement close to the one checked that has the other truth value: the same check must tell them "
    "apart, or it says nothing.",
    "friends, core": "Of many fits to parts of the records, those close to each other; methods that average such fits "
    "ask first whether there are enough (Tsfadia et al.).",
    "mask": "Noise added to the parameters of a mixture, made for the sizes of its components.",
    "neighbours": "Two data sets that differ in one record: replaced by another, or added or removed.",
    "planted fault": "A change of a line or two that makes a sound mechanism broken; an audit that misses it could not "
    "have been trusted.",
    "specimen": "A mechanism of somebody else's, broken or sound, whose true privacy loss is known.",
    "total variation": "The largest difference of two laws in the probability of any event, between 0 and 1.",
    "verdict": "Holds: no violation was found. Holds with slack: the constants can be made smaller, or the domain "
    "larger. False as printed: a counterexample was found. Not checkable: the statement hides constants, or is about "
    "all algorithms.",
    "worst": "Left side over right side of a statement at the worst case found; above 1 it is violated.",
}
