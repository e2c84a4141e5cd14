"""How the documentation is built. The reference has one page per room and is made from the package: a new room needs no edit."""

import importlib
import pkgutil
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "src"))

import mdpf  # noqa: E402
from mdpf.report import homes, mazes, style, tables  # noqa: E402

project = "mdpf"
author = "the mdpf authors"
copyright = "2026, the mdpf authors"
release = version = mdpf.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx.ext.viewcode", "myst_parser"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

html_theme = "furo"
html_title = "mdpf"
html_copy_source = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shapes", "Gradient", "Cost"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# A protocol, a NamedTuple and a dataclass say what they hold in their docstrings; inherited members only repeat Python's.
autodoc_default_options = {"members": True, "show-inheritance": False}


def rooms():
    """The top-level modules and packages of mdpf, with the modules whose names each page shows."""
    for module in sorted(pkgutil.iter_modules(mdpf.__path__), key=lambda module: module.name):
        name = f"mdpf.{module.name}"
        if module.name.startswith("_"):
            continue
        room = importlib.import_module(name)
        # A package says with __all__ what it offers; without it, its modules speak for themselves.
        inner = [] if hasattr(room, "__all__") or not module.ispkg else sorted(pkgutil.iter_modules(room.__path__, f"{name}."))
        yield name, [part.name for part in inner]


def write_reference(app):
    """Write docs/api: an index and one page per room."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages = {}
    for name, modules in rooms():
        heading = f"{name}\n{'=' * len(name)}\n"
        pages[f"{name}.rst"] = heading + "".join(f"\n.. automodule:: {module}\n" for module in (name, *modules))
    listing = "".join(f"   {page.removesuffix('.rst')}\n" for page in pages)
    pages["index.rst"] = (
        f"Reference\n=========\n\n.. automodule:: mdpf\n   :no-members:\n\n.. toctree::\n   :maxdepth: 1\n\n{listing}"
    )
    for page, text in pages.items():
        path = folder / page
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for stale in {path.name for path in folder.glob("*.rst")} - set(pages):
        (folder / stale).unlink()


def draw_pictures(app):
    """Draw what pages show and no study computes; it is always as the code has it."""
    folder = HERE / "drawn"
    folder.mkdir(exist_ok=True)
    style.save(mazes.gallery(), folder / "mazes.png")
    style.save(homes.gallery(), folder / "homes.png")


def fill_tables(app, name, source):
    """Put the numbers of the result files where a page's comments ask for them."""
    links = "../" * (1 + name.count("/")) + "results"
    source[0] = tables.fill(source[0], HERE.parent / "results", links)


def pages_with_tables(app, environment, added, changed, removed):
    """Read these again whenever the documentation is built: the results may have changed where the page has not."""
    return [
        name
        for name in environment.found_docs
        if re.search("<!-- (table|figure): ", Path(environment.doc2path(name)).read_text(encoding="utf-8"))
    ]


def skip_field_aliases(app, what, name, member, skip, options):
    """Leave out the fields of a NamedTuple: Python describes them all as "Alias for field number"."""
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field number") else None


def quote_shapes(app, what, name, subject, options, lines):
    """Set a bare shape such as [*batch, n] as code, also where its author left out the quotes."""
    for number, line in enumerate(lines):
        pieces = re.split(r"(``.*?``|`.*?`)", line)
        pieces[::2] = [re.sub(r"\[\*[^\]]*\]", r"``\g<0>``", piece) for piece in pieces[::2]]
        lines[number] = "".join(pieces)


def setup(app):
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", draw_pictures)
    app.connect("source-read", fill_tables)
    app.connect("env-get-outdated", pages_with_tables)
    app.connect("autodoc-skip-member", skip_field_aliases)
    app.connect("autodoc-process-docstring", quote_shapes)
