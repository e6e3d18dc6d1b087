"""``{errata}`` writes the statements of papers that are false as printed, from the objects that check them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from formulas import typeset
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from verification.claims import Claim, Verdict, all_claims
from verification.report.contents import PAPERS


def markdown(claim: Claim) -> str:
    """One statement: what is printed, what is true, how it was found."""
    lines = [f"### {claim.id}", "", f"*{claim.source}*", "", f"**Printed.** {typeset(claim.statement)}", ""]
    if claim.otherwise:
        lines += [f"**True.** {typeset(claim.otherwise)}", ""]
    if claim.constants:
        lines += [f"**Constants.** {typeset(claim.constants)}", ""]
    return "\n".join([*lines, f"Find the counterexample again: `python -m verification claims --id {claim.id}`", ""])


class Errata(SphinxDirective):
    """All false statements, by paper."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        """A heading for every paper, and for every statement below it."""
        false = [claim for claim in all_claims() if claim.verdict is Verdict.FALSE]
        papers = {title: [claim for claim in false if name in claim.source] for name, title in PAPERS.items()}
        papers["Others"] = [claim for claim in false if not any(claim in claims for claims in papers.values())]
        text = []
        for paper, claims in papers.items():
            if not claims:
                continue
            text += [f"## {paper}", "", *(markdown(claim) for claim in claims)]
        return self.parse_text_to_nodes("\n".join(text), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Teach Sphinx the directive."""
    app.add_directive("errata", Errata)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
