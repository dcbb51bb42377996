"""Today's conformance suites against the frozen plugins: a new check must hold for old plugins."""

from __future__ import annotations

import json
from pathlib import Path

from relay_gateway.testing.installed import PluginSite

KINDS = 5


def test_every_frozen_plugin_keeps_what_is_promised_today(
    frozen_site: PluginSite, tmp_path: Path
) -> None:
    done = frozen_site.gateway("plugins", "check", "meridian", "--json", cwd=tmp_path)
    reports = json.loads(done.stdout)
    broken = [
        f"{report['kind']}: {finding['claim']}: {finding['reason']}"
        for report in reports
        for finding in report["findings"]
        if finding["outcome"] != "passed"
    ]
    assert broken == []
    assert (done.returncode, len(reports)) == (0, KINDS)
