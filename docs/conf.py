"""Settings of the site that ``make docs`` builds: Sphinx reads the whole tree from its root, with this folder's pages.

So a relative link leads to the same page on a code host and on the site, and proof notes are pages where they stand.
What Sphinx is taught besides stands in ``_ext``.
"""

import logging
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]
from pm_dpgmm._version import __version__  # noqa: E402 - from this tree

os.environ.setdefault("QUICK", "1")  # the course's notebooks take this for their small sizes
os.environ.setdefault("MPLBACKEND", "Agg")

project = "pm_dpgmm"
author = "The pm_dpgmm developers"
copyright = "the pm_dpgmm developers, Apache-2.0"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "matplotlib.sphinxext.plot_directive",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "errata",
    "house_references",
    "proof_formulas",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**/*.md",
    "docs/*.md",
    "docs/api/**/*.rst",
    "pm_dpgmm/**/*.md",
    "verification/*.md",
    "verification/**/*.md",
    "tutorials/*.md",
    "tutorials/[0-9][0-9]-*.py",
    "*.md",
]
exclude_patterns = [".*", "build", "dist", "report", "demo-output", "benchmark-output", "tests", "**/__pycache__"]
templates_path = [str(ROOT / "docs" / "_templates")]  # stubs of the API are looked for from the root
nitpicky = True
# Folders without notes are none the worse; a glob's warning has no type by which it could be suppressed.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(lambda one: "match any documents" not in str(one.msg))

# ---------------------------------------------------------------------- Markdown and notebooks
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_custom_formats = {".py": "notebooks.reads"}
nb_execution_mode = os.environ.get("DOCS_EXECUTE", "off")  # "cache": runs the course, minutes
nb_execution_cache_path = str(ROOT / "build" / "docs-notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
suppress_warnings = [
    "myst.header",  # proof notes may skip levels of headings
    "ref.python",  # a word of a type, "(n_features,)", is in several classes; dead links are told still
]

# ---------------------------------------------------------------------- docstrings
# The house style has sections of its own (Guarantee, Source), which numpydoc does not allow.
autosummary_generate = True
autodoc_typehints = "none"  # docstrings say types in words, with shapes
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_custom_sections = [("Guarantee", "notes_style"), ("Source", "notes_style")]
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
python_maximum_signature_line_length = 90

# ---------------------------------------------------------------------- figures
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 144)]
plot_basedir = str(ROOT / "docs" / "figures")
plot_rcparams = {"figure.figsize": (7.0, 3.6), "savefig.bbox": "tight", "axes.spines.top": False}
plot_apply_rcparams = True

# ---------------------------------------------------------------------- pages
html_theme = "pymc_sphinx_theme"
html_title = "pm_dpgmm"
html_theme_options = {
    "use_edit_page_button": False,
    "use_search_override": False,
    "google_analytics_id": "",  # the theme's own default would tell PyMC's account who reads this
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "pm_dpgmm"},
}
html_math_renderer = "mathml"
html_sidebars = {"docs/index": [], "docs/gallery": []}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]  # index.html, which leads to docs/index.html
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
math_number_all = False
