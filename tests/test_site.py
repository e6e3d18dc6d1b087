"""The site that ``make docs`` builds has what it must: every public name, a page for each method, words that are true."""

from __future__ import annotations

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest

import pm_dpgmm as dpg
from pm_dpgmm.fit import METHODS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def listed():
    """Names by module in the API reference: what stands below ``currentmodule`` in lists of ``autosummary``."""
    found: dict[str, set[str]] = {}
    module = ""
    for line in (DOCS / "api" / "index.md").read_text().splitlines():
        if named := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = named[1]
        elif name := re.fullmatch(r"   ([\w.]+)", line):
            found.setdefault(module, set()).add(name[1])
    return found


def test_every_public_name_is_in_the_api_reference():
    names = listed()
    front = set(dpg.__all__) - {"__version__"}
    assert names["pm_dpgmm"] == front
    for module in ("pm_dpgmm.bayes", "pm_dpgmm.tools", "verification"):
        public = set(importlib.import_module(module).__all__)
        assert names[module] == (public - front if module == "pm_dpgmm.bayes" else public), module


def test_what_the_api_reference_lists_is_there():
    for module, names in listed().items():
        for name in names:
            place, _, last = f"{module}.{name}".rpartition(".")
            assert hasattr(importlib.import_module(place), last), f"{module}.{name}"


HEADINGS = ("**When.**", "**What it needs.**", "**Guarantee.**", "## What goes wrong", "## Its warnings")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_its_page(name):
    page = (DOCS / "methods" / f"{name}.md").read_text()
    assert [part for part in HEADINGS if part not in page] == []
    assert re.search(r"\]\(\.\./\.\./pm_dpgmm/methods/\S+\.md\)", page), "no link to a proof note"
    assert f"](methods/{name}.md)" in (DOCS / "which-method.md").read_text()
    assert f"\n{name}\n" in (DOCS / "methods" / "index.md").read_text()


def plain(text):
    """Source without what parts a text over lines."""
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_warnings_that_a_page_quotes_are_given(page):
    section = page.read_text().partition("## Its warnings")[2]
    quoted = re.findall(r'^\| "([^"]+)" \|', section, re.MULTILINE) + re.findall(r'^(?:Those|As) .*?"(.+?)"', section)
    sources = [plain(path.read_text()) for path in sorted((ROOT / "pm_dpgmm" / "methods").rglob("*.py"))]
    for text in quoted:
        assert any(text in source for source in sources), text


def test_excerpts_of_the_code_are_in_it():
    folders = ("pm_dpgmm", "verification")
    sources = [path.read_text() for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    blocks = re.findall(r"```ipython3\n(.*?)```", (DOCS / "how-to-add.md").read_text(), re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        lines = [line for line in block.splitlines() if line]
        assert any(all(line in source for line in lines) for source in sources), block


@pytest.mark.thorough
@pytest.mark.parametrize("path", sorted((DOCS / "figures").glob("*.py")), ids=lambda path: path.stem)
def test_the_figures_of_the_gallery_are_drawn(path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    runpy.run_path(str(path))
    figures = pyplot.get_fignums()
    pyplot.close("all")
    assert len(figures) == 1 and f".. plot:: {path.name}" in (DOCS / "gallery.md").read_text()


# ------------------------------------------------------------------ formulas of proof notes
@pytest.fixture
def formulas(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    return importlib.import_module("formulas")


@pytest.mark.parametrize(
    "text, drawn",
    [
        ("P(S) <= exp(epsilon) Q(S) + delta", r"$P(S) \le \exp(\varepsilon) \, Q(S) + \delta$"),
        ("is (epsilon, delta)-DP for s >= 2", r"is $(\varepsilon , \delta)$-DP for $s \ge 2$"),
        ("below 1/(16 s^2) and 1e-9", r"below $1 \text{/} (16 \, s^{2})$ and $10^{-9}$"),
        ("at most sqrt(4 R^2 + 1) steps", r"at most $\sqrt{4 \, R^{2} + 1}$ steps"),
        ("weights w_k of 2^-53 each", r"weights w_k of $2^{-53}$ each"),
    ],
)
def test_formulas_are_found_and_drawn(formulas, text, drawn):
    assert formulas.formulas_in(text) == drawn


@pytest.mark.parametrize(
    "text",
    [
        "a record more, or one less",
        "*Public.* Shares and rule-of-thumb sizes (see the note) are k-means",
        "In a block of 64 bits, A and I are words",
        "replace-one or add-remove, and/or both",
        "",
    ],
)
def test_text_stays_text(formulas, text):
    assert formulas.formulas_in(text) == text


def test_formulas_lose_no_sign(formulas):
    """Letters and digits of every proof note are the same, in order, before and after."""
    for note in sorted((ROOT / "pm_dpgmm").rglob("*.md")):
        text = re.sub(r"^#.*$", "", note.read_text(), flags=re.MULTILINE)
        drawn = formulas.typeset(text)
        for name, sign in (("varepsilon", "epsilon"), ("varphi", "phi"), ("operatorname", ""), ("mathrm", "")):
            drawn = drawn.replace(f"\\{name}", sign)
        drawn = re.sub(r"\\(le|ge|ne|to|sim|cdot|pm|mid|dots|text|prime|[lr][vV]ert)\b", "", drawn)
        text, drawn = (re.sub(r"(?<=\d)e(?=[+-]?\d)", "", one) for one in (text, drawn))  # 1e-9
        assert re.sub(r"[^A-Za-z]", "", drawn) == re.sub(r"[^A-Za-z]", "", text), note.name
        assert drawn.count("$") > 0 or note.stat().st_size < 4_000, note.name
