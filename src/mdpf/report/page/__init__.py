"""One HTML file that shows a folder of results and needs no network."""

from mdpf.report.page.content import Content, collect
from mdpf.report.page.document import write

__all__ = ["Content", "collect", "write"]
