"""Write the licenses of everything that we ship beside our own code: THIRD-PARTY-NOTICES.md.

python -m tools.third_party_notices --check|--write THIRD-PARTY-NOTICES.md

The Python packages are those of requirements/runtime.txt, with what their wheels say. The web page's packages
are in one minified file, so their notices are repeated here.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Final

from tools.debian_packages import locked_packages
from tools.generated_section import GeneratedSection

__all__ = ["main", "notices"]

_ROOT: Final = Path(__file__).parents[1]
_SPDX: Final = {"3-Clause BSD License": "BSD-3-Clause", "Apache 2.0": "Apache-2.0", "MIT License": "MIT"}
_WEB_COPYRIGHTS: Final = {
    "preact": "Copyright (c) 2015-present Jason Miller",
    "@preact/signals": "Copyright (c) 2022-present Preact Team",
    "uplot": "Copyright (c) 2022 Leon Sorokin",
}
"""All of them have the MIT License, as its text is below."""
_MIT: Final = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without
limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
the Software, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN
AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE
OR OTHER DEALINGS IN THE SOFTWARE."""


def notices() -> str:
    return "\n".join([*_python(), *_web(), *_debian()])


def _python() -> Iterator[str]:
    yield "## Python packages"
    yield ""
    yield "In the image and in the kubectl plugin, each with the text of its license in `*.dist-info`."
    yield ""
    yield "| package | version | license |"
    yield "|---|---|---|"
    for name, version in _locked("runtime"):
        yield f"| {name} | {version} | {_license(name)} |"
    yield ""
    yield "Only with OpenTelemetry (`--otel`):"
    yield ""
    yield "| package | version | license |"
    yield "|---|---|---|"
    for name, version in sorted(set(_locked("otel")) - set(_locked("runtime"))):
        yield f"| {name} | {version} | {_license(name)} |"
    yield ""


def _locked(lock: str) -> list[tuple[str, str]]:
    text = (_ROOT / f"requirements/{lock}.txt").read_text(encoding="utf-8")
    return re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE)


def _license(name: str) -> str:
    """Return the SPDX expression that the installed package names. Raises `ValueError` if it names none."""
    said = metadata(name).json
    classifiers = [each for each in said.get("classifier", []) if each.startswith("License ::")]
    found = str(said.get("license_expression") or said.get("license") or "".join(classifiers[:1]))
    text = found.rpartition(":: ")[2].strip()
    if not text or "\n" in text:
        raise ValueError(f"{name} names no license: look it up, and add it here")
    return _SPDX.get(text, text)


def _web() -> Iterator[str]:
    dependencies = json.loads((_ROOT / "web/package.json").read_text(encoding="utf-8"))["dependencies"]
    yield "## The web page"
    yield ""
    yield "| package | version | license | |"
    yield "|---|---|---|---|"
    for name, version in dependencies.items():
        yield f"| {name} | {version} | MIT | {_WEB_COPYRIGHTS[name]} |"
    yield ""
    yield "The MIT License:"
    yield ""
    yield from (f"> {line}".rstrip() for line in _MIT.splitlines())
    yield ""


def _debian() -> Iterator[str]:
    names = sorted({package.name for package in locked_packages("amd64")})
    yield "## Debian packages"
    yield ""
    yield "In the image, unchanged except that files are left out. The license of each is in the image, in"
    yield "`/usr/share/doc/NAME/copyright`; that of libgcc-s1 and libstdc++6 is"
    yield "GPL-3.0-or-later WITH GCC-exception-3.1."
    yield f"Sources are at https://snapshot.debian.org: {', '.join(names)}."
    yield ""


main = GeneratedSection(notices).main


if __name__ == "__main__":
    sys.exit(main())
