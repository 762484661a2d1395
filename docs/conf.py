"""Sphinx configuration. The build runs the examples; `make docs` treats warnings as errors."""

import os

from docutils import nodes

import paoswarm

os.environ.setdefault("MPLBACKEND", "Agg")

project = "paoswarm"
author = "The paoswarm developers"
copyright = "2026, " + author
release = version = paoswarm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
default_role = "autolink"
nitpicky = True  # a link that leads nowhere is a warning ...
nitpick_ignore_regex = [("py:obj", ".*")]  # ... but single backticks also mark names without a page

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo\.py",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = "paoswarm"
html_static_path = ["_static"]
html_css_files = ["paoswarm.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def strip_code(app, doctree) -> None:
    """Drop the empty line that ends a doctest: it is for Python, not for readers."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        if block.rawsource == block.astext():  # otherwise the block holds markup
            block.rawsource = text
            block[:] = [nodes.Text(text)]


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", strip_code)
