"""Docstring examples run, proof notes match their source, and the examples of README and docs run."""

import doctest
import importlib
import re
from functools import partial
from pathlib import Path

import pytest

from verification import proof_notes

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in ("pm_dpgmm", "verification")
    for path in sorted((ROOT / package).rglob("*.py"))
    if re.search(r">>> (?!.*SKIP)", path.read_text()) and "bayes" not in path.parts
]


@pytest.mark.thorough(quick=["pm_dpgmm.estimator"])
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstring_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"np": importlib.import_module("numpy")})
    assert result.attempted and not result.failed


def test_proof_notes_match_the_source_they_were_read_against():
    assert proof_notes.stale() == []


def test_a_changed_source_makes_its_note_stale(tmp_path, monkeypatch):
    monkeypatch.setattr(proof_notes, "present_hash", lambda note, name: "0" * 12)
    assert len(proof_notes.stale()) >= 10


WITHOUT_PROMISE = {"__init__.py", "partitions.py"}  # of mechanisms/: public values, by which others sort records


def promises(path, source):
    """Whether a module needs a proof note: every mechanism, and of the methods what draws noise or says a guarantee."""
    imported = re.search(r"from pm_dpgmm\.privacy\.noise import (.+)", source)
    draws = imported and any(name.islower() for name in imported[1].split(", "))  # not types
    mechanism = path.parent.name == "mechanisms" and path.name not in WITHOUT_PROMISE
    return bool(mechanism or draws or ("    Guarantee\n" in source and "rng: Rng" in source))


def named_by(text, kind):
    """Names in "target `a`, targets `b`, `c`" of a note; a fault may have the number of a specimen behind it."""
    found = re.findall(rf"\b{kind}s? ((?:`\w+`(?: \(S\d+\))?(?:, )?)+)", " ".join(text.split()))
    return {name for group in found for name in re.findall(r"`(\w+)`", group)}


def test_names_are_read_from_a_proof_note():
    note = "Checked by: target `a`, targets `b`,\n`c`, faults `d`, `e` (S11), `f`, fault `g`; `h`."
    assert named_by(note, "target") == {*"abc"} and named_by(note, "fault") == {*"defg"}


def test_every_mechanism_and_method_has_a_proof_note_a_target_and_a_fault():
    from verification.specimens import all_specimens
    from verification.targets import all_targets

    targets = all_targets()
    origins = {target.origin for target in targets if not target.broken}
    broken = {found.name for found in [*targets, *all_specimens()] if found.broken}
    noted = []
    folders = [ROOT / "pm_dpgmm" / name for name in ("mechanisms", "methods")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        note = path.with_suffix(".md")
        if not promises(path, path.read_text()):
            continue
        assert note.exists(), f"{path.name} has no proof note"
        text = note.read_text()
        named, planted = named_by(text, "target"), named_by(text, "fault")
        assert named and named <= {target.name for target in targets if not target.broken}, path.name
        assert planted and planted <= broken, f"{note.name} names no fault, or one that is not there"
        noted.append(path)
    assert len(noted) >= 20
    assert {"mechanisms/histogram.py", "mechanisms/masks.py", "methods/populous_single/method.py"} <= origins


@pytest.mark.thorough
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "```python" in page.read_text()],
    ids=lambda page: f"{page.parent.name}/{page.name}",
)
def test_the_examples_of_every_page_run(page, tmp_path, monkeypatch, request):
    """All blocks of a page one after another, as a reader would; only the posteriors are sampled more briefly."""
    import matplotlib
    import pymc as pm

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)  # they save releases
    brief = {"draws": 100, "tune": 100, "chains": 1, "cores": 1, "progressbar": False, "random_seed": 1}
    monkeypatch.setattr(pm, "sample", partial(pm.sample, **brief))
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    for name, test in list(names.items()):
        if name.startswith("test_"):
            test(request.getfixturevalue("dp_audit"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_lead_somewhere_and_lines_are_short(page):
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / link).exists(), link
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) <= 1300


def test_pages_count_claims_and_specimens_right():
    from verification.claims import Verdict, all_claims
    from verification.specimens import all_specimens

    audit, papers, readme = (
        page.read_text() for page in (ROOT / "docs/audit-a-claim.md", ROOT / "docs/papers.md", PAGES[0])
    )
    broken = [specimen.broken for specimen in all_specimens()]
    assert f"All {sum(broken)} broken specimens are refuted" in audit
    assert f"{sum(broken)} broken mechanisms and {len(broken) - sum(broken)} sound ones" in audit
    verdicts = [claim.verdict for claim in all_claims()]
    n = {verdict: verdicts.count(verdict) for verdict in Verdict}
    words = f"{n[Verdict.HOLDS]} hold, {n[Verdict.SLACK]} hold with slack, {n[Verdict.FALSE]} are **false as printed**"
    assert f"{words}, {n[Verdict.NOT_CHECKABLE]} cannot be checked" in " ".join(papers.split())
    assert f"# {len(verdicts)} statements" in papers
    assert f"finds {n[Verdict.FALSE]} of {len(verdicts)} false as printed" in readme


REFERENCE = re.compile(r":(?:mod|func|class):`~?([\w.]+)`")


def unresolved(module, source, sources):
    """References of a module's docstrings to what is not there: by full path, beside it, or in it."""
    missing = []
    for name in REFERENCE.findall(source):
        whole = name.startswith(("pm_dpgmm", "verification"))
        for path in [name] if whole else [f"{module.rpartition('.')[0]}.{name}", f"{module}.{name}"]:
            known = next(p for p in [path, *before(path)] if p in sources or "." not in p)
            rest = path.removeprefix(known).strip(".").split(".")[0]
            if not rest or re.search(rf"\b{rest}\b", REFERENCE.sub("", sources.get(known, ""))):
                break
        else:
            missing.append(name)
    return missing


def before(path):
    parts = path.split(".")
    return (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))


def test_what_docstrings_refer_to_is_there():
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path.read_text()
        for package in ("pm_dpgmm", "verification")
        for path in (ROOT / package).rglob("*.py")
    }
    found = {module: lost for module, source in sources.items() if (lost := unresolved(module, source, sources))}
    assert found == {}
    assert unresolved("pm_dpgmm.fit", ":func:`pm_dpgmm.sketch_fit.fit`", sources) == ["pm_dpgmm.sketch_fit.fit"]
    assert unresolved("pm_dpgmm.fit", ":func:`count_law.log_density`", sources)
    assert not unresolved("pm_dpgmm.fit", ":func:`fit_gmm` :class:`pm_dpgmm.Release`", sources)


def test_markdown_lines_fit_a_screen():
    """Tables and code blocks aside, which cannot be wrapped."""
    skipped = {ROOT / "CHANGELOG.md"}
    found = []
    for path in {*PAGES, *proof_notes.notes(), ROOT / "DECISIONS.md"} - skipped:
        prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "#"))]
        found += [f"{path.relative_to(ROOT)}: {line[:60]}" for line in lines if " " in line[:120]]
    assert found == []
