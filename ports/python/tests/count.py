"""Runs the tests in this folder. The last line is: N passed, N failed, N skipped."""
import pathlib
import sys

import pytest


class Count:
    def __init__(self):
        self.n = {"passed": 0, "failed": 0, "skipped": 0}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.n[report.outcome] += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.n["failed"] += 1


count = Count()
status = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", str(pathlib.Path(__file__).parent), *sys.argv[1:]],
                     plugins=[count])
print(", ".join(f"{n} {what}" for what, n in count.n.items()))
sys.exit(int(status))
