"""For all tests of the repository."""

from __future__ import annotations

import os

from hypothesis import settings

# How long one example takes depends on what else the machine does. What decides whether a change
# is good has the same examples each time; everywhere else each run looks for new ones.
settings.register_profile("repository", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("repository")
