"""``python -m workbench.docs [DIR]`` writes the API pages and the first page."""

import sys

from workbench.docs import build

print(build(*sys.argv[1:2]))
