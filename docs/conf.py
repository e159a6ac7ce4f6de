"""Sphinx settings: Markdown pages and the public Python names."""

from importlib import metadata

project = "eptsim"
author = "eptsim developers"
copyright = "eptsim developers"
release = metadata.version("eptsim")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"eptsim {release}"
autodoc_typehints = "description"
# Links to files that are no pages here are checked by tests/test_docs.py.
suppress_warnings = ["myst.xref_missing"]
