"""What a card says, before it is laid out: sections of texts, tables and drawings, in words for people.

Nothing but the release, the facts given and the sums of the ledger enters. Every text is plain; layouts escape it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pm_dpgmm._arguments import FloatArray, printable
from pm_dpgmm.methods.fit_warnings import ComponentWarning, warning_for
from pm_dpgmm.methods.released import Released
from pm_dpgmm.methods.statistic import Statistic
from pm_dpgmm.privacy.group_privacy import points_of
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.release.card import figures
from pm_dpgmm.release.card.facts import Facts
from pm_dpgmm.release.card.numbers import (
    AT,
    NOTHING_PROVED,
    bounds_of,
    component_rows,
    curve_rows,
    errors_of,
    factor,
    group_rows,
    guess,
    noise_lines,
    rounded_up,
)
from pm_dpgmm.release.summary_text import summary
from pm_dpgmm.release.uncertainty import StandardErrors

NOT_STATED = "not stated"
OWN_DELTA = (
    "; where no epsilon is proved at that delta, a row has the larger delta at which the stated promise gives m times"
    " its epsilon"
)
NOT_PRIVATE = (
    "NOT PRIVATE: the noise of this release, or of one that it was made from, came from a known seed, or its records"
    " were public anyway. It protects nobody, whatever is said below of its method. For teaching and tests only."
)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    words: str


@dataclass(frozen=True, slots=True)
class Points:
    """A list."""

    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts; ``numbers`` are the places of the columns that are aligned to the right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """Lines as they are; ``about`` is said above them where they can be folded."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Drawings:
    """Drawings that are made when a layout shows them, each with its caption."""

    made: tuple[tuple[Callable[[], str], str], ...]


Block = Text | Points | Table | Code | Drawings


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """A whole card."""

    title: str
    alarm: str  # "" for a private release
    sections: tuple[Section, ...]
    version: str


def contents(release: Released, facts: Facts) -> Contents:
    """Everything that the card of a release says."""
    names = tuple(printable(name) for name in release.feature_names)
    points = points_of(release.guarantee)  # a value of some curves takes .03 s
    groups = group_rows(release.guarantee, facts.rows_per_person, points)
    sections = (
        Section("At a glance", (Table(("", ""), tuple(_glance(release, facts, groups))),)),
        Section("Columns", (_columns(release, facts, names), Text(_public_words(release)))),
        Section("What is protected, and what is not", _protected(release, facts)),
        Section("How strong the protection is", _strength(release, points, groups)),
        Section("What was released", _released(release, names)),
        Section("Warnings", _warnings(release)),
        Section("Other releases from the same records", _ledger(release, facts)),
        Section("How to load it", _loading(facts)),
        Section("Noise in the raw statistics", (Code("\n".join(printable(line) for line in noise_lines(release))),)),
        Section("Summary", (Code(summary(release), "As release.summary() prints it"),)),
    )
    alarm = "" if release.private else NOT_PRIVATE
    return Contents(printable(facts.title), alarm, sections, printable(release.version))


# ---------------------------------------------------------------------- what, who, when
def _glance(release: Released, facts: Facts, groups: list[list[str]]) -> list[tuple[str, str]]:
    g = release.guarantee
    promise = f"epsilon = {g.epsilon:g}" + (f", delta = {g.delta:g}" if g.delta else "")
    told = [
        ("The data", printable(facts.data) or NOT_STATED),
        ("Answerable", printable(facts.contact) or NOT_STATED),
        ("Date", printable(facts.date)),
        ("Licence", printable(facts.licence)),
        ("What this is", f"a mixture of {release.n_components} Gaussian components for {_columns_words(release)}"),
        ("Records", _records(release)),
        ("Promise", f"({'epsilon, delta' if g.delta else 'epsilon'})-differential privacy: {promise}"),
        ("Protects", _who(release)),
        ("A person", _person(release, facts, groups)),
        ("Method", f"{printable(release.method)} ({printable(g.mechanism)})"),
    ]
    return [(name, words) for name, words in told if words]


def _columns_words(release: Released) -> str:
    return f"{release.n_features} column{'' if release.n_features == 1 else 's'}"


def _records(release: Released) -> str:
    if release.n_records is None:
        return "their number is protected, too, and not published"
    return f"{release.n_records:,}; their number is public"


def _who(release: Released) -> str:
    if release.guarantee.neighbouring is Neighbouring.REPLACE_ONE:
        return "any one record, against being told apart from any other that might stand in its place"
    return "any one record, against anybody who wants to know whether it is there at all"


def _person(release: Released, facts: Facts, groups: list[list[str]]) -> str:
    """What is promised to whoever has the most records."""
    if facts.rows_per_person is None:
        return "how many records one person may have is not stated"
    if facts.rows_per_person == 1:
        return "has one record, so that the promise is to people"
    epsilon = next(row[1] for row in groups if row[0] == f"{facts.rows_per_person:,}")
    at = f"{AT}{release.guarantee.delta:g}" if release.guarantee.delta and AT not in epsilon else ""
    promised = epsilon if epsilon == NOTHING_PROVED else f"epsilon = {epsilon}{at}"
    return f"has at most {facts.rows_per_person:,} records; for all of them together: {promised}"


def _columns(release: Released, facts: Facts, names: tuple[str, ...]) -> Table:
    limits, steps, columns = bounds_of(release), release.resolution, release.transformations
    rows = []
    for j, name in enumerate(names):
        low, high = (NOT_STATED,) * 2 if limits is None else (f"{limit:g}" for limit in limits[j])
        row = [name, printable(facts.descriptions[j]), printable(facts.units[j]) or NOT_STATED, low, high]
        step = "" if steps is None or not steps[j] > 0 else f"{steps[j]:g}"
        one = None if columns is None else columns.columns[j]
        rows.append((*row, step, "" if one is None else printable(one.told)))
    head = ("column", "what it is", "unit", "lower bound", "upper bound", "rounded to", "transformed by")
    kept = [i for i in range(len(head)) if i in (0, 2, 3, 4) or any(row[i] for row in rows)]
    numbers = tuple(at for at, i in enumerate(kept) if i in (3, 4, 5))
    return Table(tuple(head[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), numbers)


def _public_words(release: Released) -> str:
    words = (
        "Names, units, bounds, roundings and transformations of columns are public, and the protection does not cover"
    )
    words += " them: it takes for granted that they come from knowledge of the field and not from the records."
    if bounds_of(release) is None:
        words += " This release holds no bounds: none were given, or its method needs none."
    return words


# ---------------------------------------------------------------------- privacy
def _protected(release: Released, facts: Facts) -> tuple[Block, ...]:
    g = release.guarantee
    replaced = g.neighbouring is Neighbouring.REPLACE_ONE
    change = "had any one record said something else" if replaced else "had any one record been left out, or added"
    besides = f", except for a probability of at most {g.delta:g}" if g.delta else ""
    where = "was drawn before anything left the computation"
    if release.statistic is Statistic.LOCAL_RESPONSES:
        where = "was added on each person's own device, before anything was collected"
    yes = (
        f"Everything in this release was made with random noise, which {where}. {change[0].upper()}{change[1:]},"
        f" anything that can be read here would have been at most {factor(g.epsilon)} times as likely, or as"
        f" unlikely{besides}. That holds whatever else a reader knows, and whatever is done with the release"
        " afterwards.",
        f"Somebody who knows all other records, and two equally likely possibilities for one, guesses right with"
        f" probability at most {rounded_up(guess(g), 3)}; without the release it would be 0.5.",
    )
    no = (
        "What the records say of people in general: that is what is published. Conclusions about a person from what is"
        " true of people alike can be drawn, and could be without this person's record.",
        f"A person with several records, who is protected less: see below. {_rows_words(facts)}",
        "Whatever is public beside it: names and bounds of columns, settings of the method"
        + (", the number of records." if release.n_records is not None else "."),
        "Other publications from the same records. Their effects add up.",
        "What can be observed of the computation itself, such as its running time or its error messages.",
    )
    return Text("Protected:"), Points(yes), Text("Not protected:"), Points(no)


def _rows_words(facts: Facts) -> str:
    if facts.rows_per_person is None:
        return "How many records one person may have is not stated."
    if facts.rows_per_person == 1:
        return "By what those answerable say, nobody has more than one."
    return f"By what those answerable say, nobody has more than {facts.rows_per_person:,}."


def _strength(release: Released, points: tuple[FloatArray, FloatArray], groups: list[list[str]]) -> tuple[Block, ...]:
    g = release.guarantee
    curve = (
        "The same release keeps a whole curve of promises. Each row holds: apart from a probability of delta, nothing"
        " becomes more likely by more than the factor. A delta should be far below one over the number of people."
    )
    several = (
        "For m records that change together, such as all those of one person"
        + (f", at delta = {g.delta:g}" if g.delta else "")
        + " (upper bounds"
        + ("; with delta held, epsilon may grow faster than m" if g.delta else "")
        + (OWN_DELTA if any(AT in epsilon for _, epsilon, _ in groups) else "")
        + "):"
    )
    return (
        Text(curve),
        Table(("delta", "epsilon", "factor exp(epsilon)"), tuple(map(tuple, curve_rows(g))), (0, 1, 2)),
        Drawings(((lambda: figures.curve(g, points), "The curve for one record. The circle is the stated promise."),)),
        Text(several),
        Table(("m", "epsilon", "factor exp(epsilon)"), tuple(map(tuple, groups)), (0, 1, 2)),
    )


# ---------------------------------------------------------------------- the mixture
def _released(release: Released, names: tuple[str, ...]) -> tuple[Block, ...]:
    columns = release.transformations
    errors = errors_of(release)
    known = errors if isinstance(errors, StandardErrors) else None
    labels = names if columns is None else tuple(printable(name) for name in columns.labels(release.feature_names))
    words = "Components are numbered as in the arrays of the file, the heaviest comes first. Means and standard"
    words += " deviations are in the unit of the records"
    words += "." if columns is None else ", of transformed columns in the transformed unit."
    if known is not None:
        words += " Behind ± stands one standard error, of the noise and of the sampling together."
        words += f" Do not rely on these: {printable(known.flag)}." if known.flag else ""
    else:
        words += f" {printable(str(errors))}"
    blocks: list[Block] = [
        Text(words),
        Table(
            ("component", "weight", "column", "mean", "standard deviation"),
            tuple(map(tuple, component_rows(release, labels, known))),
            (1, 3, 4),
        ),
    ]
    if release.background is not None:
        blocks.append(
            Text(f"A background, one broad Gaussian, holds {release.background_weight:.2g} of the records besides.")
        )
    drawn, left_out = figures.of_columns(release, sure=known is not None)
    alone = min(release.n_features, figures.MOST_COLUMNS)  # flat drawings leave gaps beside the square ones of pairs
    blocks += [Drawings(tuple(some)) for some in (drawn[:alone], drawn[alone:]) if some]
    if left_out:
        blocks.append(Text(left_out))
    return tuple(blocks)


def _warnings(release: Released) -> tuple[Block, ...]:
    if not release.warnings:
        return (Text(_no_warning(release)),)
    effects = []
    for reason in release.warnings:
        if issubclass(warning_for([reason]), ComponentWarning):
            effect = "Effect: do not read anything into this component; densities, samples and priors are as good."
        else:
            effect = "Effect: do not rely on the mixture where this matters; standard errors may be too small."
        effects.append(f"{reason}. {effect} The protection is not affected.")
    return (Points(tuple(effects)),)


def _no_warning(release: Released) -> str:
    """What may be said where there is none: a sketch alone is compared with its mixture."""
    if release.misfit is None:
        return "None."
    if release.misfit.contradiction is None:
        return "None: the released numbers do not speak against the mixture."
    words = "that is too little to matter for densities, samples and priors, and makes standard errors too small"
    return f"None, although {printable(release.misfit.contradiction)}: {words}."


# ---------------------------------------------------------------------- the budget, the file
def _ledger(release: Released, facts: Facts) -> tuple[Block, ...]:
    if facts.ledger is None:
        words = "No ledger was given for this card: it does not know whether the same records were used again. Epsilons"
        words += " and deltas of several releases add up, or less: pm_dpgmm.compose computes it."
        return (Text(words),)
    ledger = facts.ledger
    entries = ledger.entries()
    spent, left = ledger.spent, ledger.remaining
    rows = [
        ("budget", ledger.epsilon, ledger.delta),
        (f"spent, in {len(entries):,} charges", *spent),
        ("left", *left),
    ]
    words = f"The records have a ledger, in which every use is written down before it begins ({ledger.neighbouring})."
    table = Table(("", "epsilon", "delta"), tuple((name, f"{e:g}", f"{d:g}") for name, e, d in rows), (1, 2))
    return Text(words), table


def _loading(facts: Facts) -> tuple[Block, ...]:
    file = printable(facts.file)
    code = (
        "# pip install pm-dpgmm\n"
        "import pm_dpgmm as dpg\n\n"
        f"release = dpg.load({file!r})\n"
        "print(release.summary())\n"
        "release.sample(1000)       # synthetic records\n"
        "release.plot()             # its density\n"
    )
    words = (
        "The release is a JSON file; nothing in it is run. No records are needed, and whatever is done with it costs"
    )
    words += " nobody any privacy."
    return Text(words), Code(code)
