"""For all tests of the repository."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# How long one example takes depends on what else the machine does. What decides whether a change
# is good has the same examples each time; everywhere else each run looks for new ones.
settings.register_profile("repository", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("repository")

MOST_UNSTEADY = 6
"""So many tests of one run may fail at first and pass when they are run again (``--reruns``)."""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run in which more tests than a busy machine explains were unsteady."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    again = {report.nodeid for report in reporter.stats.get("rerun", ())} if reporter else ()
    if len(again) > MOST_UNSTEADY:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
