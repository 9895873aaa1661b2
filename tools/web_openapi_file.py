"""Generate `web/openapi.json`, the description of the web page's API, from the types in `rescheduler.web`.

python -m tools.web_openapi_file --check|--write web/openapi.json
"""

import sys
from pathlib import Path

from rescheduler.web.web_openapi import openapi_text

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    action, file = arguments[0], Path(arguments[1])
    if action == "--write":
        file.write_text(openapi_text(), encoding="utf-8")
    elif not file.exists() or file.read_text(encoding="utf-8") != openapi_text():
        sys.stderr.write(f"{file} is out of date: run `make generate`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
