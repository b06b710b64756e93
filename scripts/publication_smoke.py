"""The publication protocol against a real lakeFS: `python scripts/publication_smoke.py REPOSITORY [--base BRANCH] [--json]`.

The same as `perago doctor --publication`: lakeFS is configured by the environment or `.env`, and every check uses its own
branches. Exit code 0 if all checks hold, 1 if not.
"""

import sys

from perago.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["doctor", "--publication"]
    main()
