"""A card as one page of HTML: no scripts, nothing loaded from elsewhere, readable on a phone and on paper."""

from __future__ import annotations

from html import escape

from pm_dpgmm.release.card.contents import Block, Code, Contents, Drawings, Points, Table, Text

# even if a text slipped through unescaped, browsers run nothing and load nothing
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
LIGHT = "--ink: #1c2430; --faint: #56606f; --line: #d9dee5; --paper: #fff; --band: #f4f6f9; --alarm: #b3261e"
STYLE = f"""
:root {{ {LIGHT}; color-scheme: light dark; }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ --ink: #e6eaf0; --faint: #a2adba; --line: #36404d;
  --paper: #14191f; --band: #1c232b; --alarm: #f08a82; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }}
main {{ max-width: 62rem; margin: 0 auto; padding: 2rem 1rem 4rem; }}
h1 {{ font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--line); }}
p, li, figcaption {{ max-width: 44rem; overflow-wrap: anywhere; }} li {{ margin: .35rem 0; }}
ul {{ padding-left: 1.25rem; }}
.alarm {{ border: 2px solid var(--alarm); color: var(--alarm); border-radius: 6px; padding: .75rem 1rem;
  font-weight: 600; max-width: none; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .95rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem 1.1rem .4rem 0; border-bottom: 1px solid var(--line); }}
th {{ color: var(--faint); font-weight: 600; }} td {{ overflow-wrap: break-word; }}
.glance td {{ overflow-wrap: anywhere; }}
.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
.glance td:first-child {{ color: var(--faint); white-space: nowrap; }} .glance {{ width: 100%; }}
.glance tr:first-child td {{ border-top: 1px solid var(--line); }}
pre {{ background: var(--band); padding: .75rem 1rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; }}
.figures {{ display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  margin: 1rem 0; }}
figure {{ margin: 0; break-inside: avoid; }}
figure svg {{ width: 100%; height: auto; max-width: 34rem; background: #fff; border-radius: 6px; display: block; }}
figcaption {{ font-size: .88rem; color: var(--faint); margin-top: .35rem; }}
footer {{ margin-top: 3rem; color: var(--faint); font-size: .88rem; }}
summary {{ cursor: pointer; color: var(--faint); }}
@media screen and (max-width: 34rem) {{ table {{ font-size: .82rem; }} th, td {{ padding-right: .55rem; }}
  main {{ padding-top: 1rem; }} ul {{ padding-left: 1rem; }} }}
@media print {{ body {{ font-size: 11pt; }} main {{ padding: 0; max-width: none; }}
  h2, summary {{ break-after: avoid; }}
  table {{ break-inside: avoid; }} pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }} }}
"""


def to_html(contents: Contents) -> str:
    """The whole page."""
    title = escape(contents.title)
    alarm = f'<p class="alarm" role="alert">{escape(contents.alarm)}</p>' if contents.alarm else ""
    sections = "\n".join(
        f"<section><h2>{escape(section.title)}</h2>" + "\n".join(map(_laid, section.blocks)) + "</section>"
        for section in contents.sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{alarm}\n"
        f"{sections}\n<footer>Made with pm_dpgmm {escape(contents.version)}.</footer>\n</main>\n</body>\n</html>\n"
    )


def _laid(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{escape(block.words)}</p>"
    if isinstance(block, Points):
        return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in block.entries) + "</ul>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        lines = f"<pre>{escape(block.text.rstrip())}</pre>"
        return f"<details><summary>{escape(block.about)}</summary>{lines}</details>" if block.about else lines
    assert isinstance(block, Drawings)
    figures = "".join(
        f"<figure>{made()}<figcaption>{escape(caption)}</figcaption></figure>" for made, caption in block.made
    )
    return f'<div class="figures">{figures}</div>'


def _table(table: Table) -> str:
    kinds = [' class="number"' if i in table.numbers else "" for i in range(len(table.head))]
    head = ""
    if any(table.head):
        cells = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, table.head, strict=True))
        head = f"<thead><tr>{cells}</tr></thead>"
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    name = "" if head else ' class="glance"'
    return f'<div class="scroll"><table{name}>{head}<tbody>{body}</tbody></table></div>'
