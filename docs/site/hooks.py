"""Hooks of mkdocs: pages that are made when the site is built, and links that leave the folder of pages.

A page in `docs/` holds a comment where something is filled in: `<!-- commands -->`, `<!-- methods -->`,
`<!-- names of tellwhy.detectors -->`. Files of the repository that are pages too (CONTRIBUTING, the index of the
benchmarks, the examples) are listed in `FILES`.
"""

import html
import re
import sys
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import commands  # noqa: E402
import gallery  # noqa: E402
import names  # noqa: E402
import results  # noqa: E402

# a file of the repository: the page that shows it
FILES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "README.md": "index.md",
    "benchmarks/README.md": "results/index.md",
    "docs/README.md": "index.md",
    "examples/gallery/README.md": "gallery/index.md",
}
BACKSLASH_BAR = "\\|"
SHIM = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s:#]+)(#[^)\s]*)?\)")
BAR = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")  # a bar inside code inside a table
FILLED = re.compile(r"<!-- (commands|methods|names of (\S+)) -->")


def on_config(config: Any) -> Any:
    """Put the pages of results and of the gallery below their headings."""
    for entry in config["nav"]:
        if "Results" in entry:
            entry["Results"] = ["results/index.md", *results.list_chapters(ROOT)]
        if "Gallery" in entry:
            entry["Gallery"] = ["gallery/index.md", *gallery.list_areas(ROOT)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand in no file of `docs/`."""
    from mkdocs.structure.files import File

    made = {
        page: (ROOT / file).read_text(encoding="utf-8")
        for file, page in FILES.items()
        if page not in {"index.md", "gallery/index.md", "results/index.md"}
    }
    made["results/index.md"] = results.write_index(ROOT)
    made |= gallery.write_pages(ROOT)
    made["report.html"] = gallery.write_report(ROOT)
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Fill in what is made from the package, and turn links to files of the repository into links to pages."""
    path = page.file.src_uri
    filled = BAR.sub(_write_bar, FILLED.sub(_fill, text))
    return LINK.sub(lambda link: _turn(link, path), filled)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Take the script that the offline search wants from here, not from elsewhere."""
    return output.replace(SHIM, relpath("site/worker.js", _parent(page.file.dest_uri)))


def on_post_template(output: str, **_: Any) -> str:
    """The same in pages that are made from templates alone."""
    return output.replace(SHIM, "/site/worker.js")


def _fill(mark: re.Match[str]) -> str:
    """What stands in the place of a comment."""
    if mark[1] == "commands":
        return commands.describe_commands()
    if mark[1] == "methods":
        return names.list_methods()
    return names.describe_names(mark[2])


def _write_bar(code: re.Match[str]) -> str:
    """Code with a bar that no table takes for its own."""
    return f"<code>{html.escape(code[1].replace(BACKSLASH_BAR, '|')).replace('|', '&#124;')}</code>"


def _turn(link: re.Match[str], page: str) -> str:
    """A link as it must be on the site: `page` is where it stands, seen from `docs/`."""
    words, target, anchor = link[1], link[2], link[3] or ""
    file = normpath(f"{_folder_of(page)}/{target}")
    if file in FILES:
        return f"{words}({relpath(FILES[file], _parent(page))}{anchor})"
    if file.startswith("docs/"):
        return f"{words}({relpath(file.removeprefix('docs/'), _parent(page))}{anchor})"
    shown = gallery.page_of(file)
    if shown:
        return f"{words}({relpath(shown, _parent(page))})"
    if not (ROOT / file).exists():
        return link[0]
    said = words.strip("[]`")
    return f"`{file}`" if file.endswith(said) else f"{said} (`{file}` in the repository)"


def _folder_of(page: str) -> str:
    """The folder of the repository that links of a page start from."""
    for file, shown in FILES.items():
        if shown == page and page != "index.md":
            return str(Path(file).parent)
    return f"docs/{_parent(page)}"


def _parent(page: str) -> str:
    return str(Path(page).parent)
