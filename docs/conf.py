"""Sphinx configuration of the manual, a static site with search. Neither building nor reading it downloads anything."""

import sys
from pathlib import Path

import perago

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Perago"
author = "the Perago maintainers"
release = perago.__version__
html_title = f"Perago {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "program"]
exclude_patterns = ["_ext"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.strikethrough"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
add_module_names = False
default_role = "code"  # docstrings write code in single backticks
python_use_unqualified_type_names = True
toc_object_entries = False

templates_path: list[str] = []
html_theme = "furo"
pygments_dark_style = "github-dark"  # furo's own underlines names, which then look like links
html_static_path = ["_static"]
html_css_files = ["perago.css"]
html_js_files = ["copy.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2b59c3", "color-brand-content": "#2b59c3"},
    "dark_css_variables": {"color-brand-primary": "#8fb4ff", "color-brand-content": "#8fb4ff"},
}
