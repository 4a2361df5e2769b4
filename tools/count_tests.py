#!/usr/bin/python3
"""Counts test cases: the last line printed is "N passed, N failed".

Before it come the names of failed cases, how many were skipped, and why.

Reads the build event files (newline-delimited JSON) that `bazel test` wrote,
so only tests of that very run count, and JUnit XML files of other checks.
A test target without XML (it was not built, or it was killed) is one failed
case. Exits with 1 when a case failed or when none ran.
"""

import argparse
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


class Counts:
    """Passed, failed and skipped cases, and the names of the failed ones."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []
        # What was skipped, and why, in the order of the tests.
        self.reasons = {}

    def fail(self, name):
        self.failures.append(name)

    def skip(self, owner, reason):
        self.skipped += 1
        if reason:
            self.reasons[f"{owner}: {reason}"] = None

    def line(self):
        return f"{self.passed} passed, {len(self.failures)} failed"

    def ok(self):
        return self.passed > 0 and not self.failures


def add_xml(path, owner, counts):
    """Adds the cases of a JUnit XML file. Returns how many of them failed."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        counts.fail(f"{owner} (no test results: {error})")
        return 1
    failed = 0
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            names = (case.get("classname"), case.get("name"))
            counts.fail(f"{owner} " + ".".join(name for name in names if name))
        elif (case.find("skipped") is not None
              or case.get("result") == "skipped"
              or case.get("status") == "notrun"):
            skipped = case.find("skipped")
            reason = None if skipped is None else (
                skipped.get("message") or skipped.text)
            counts.skip(owner, reason)
        else:
            counts.passed += 1
    if not cases:
        counts.fail(f"{owner} (it ran no test case)")
        return 1
    return failed


def xml_of(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml":
            return urllib.parse.unquote(
                urllib.parse.urlparse(output.get("uri", "")).path)
    return None


def add_events(path, counts):
    """Adds all tests of one `bazel test`."""
    targets = set()
    results = {}
    exit_name = None
    try:
        with open(path, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
    except (OSError, ValueError) as error:
        counts.fail(f"bazel (no events: {error})")
        return
    for event in events:
        identity = event.get("id", {})
        if event.get("configured", {}).get("testSize"):
            targets.add(identity["targetConfigured"]["label"])
        if "testResult" in event:
            key = identity["testResult"]
            shard = (key.get("run"), key.get("shard"))
            # A later attempt of the same shard replaces the earlier one.
            results.setdefault(key["label"], {})[shard] = event["testResult"]
        if "finished" in event:
            exit_name = event["finished"].get("exitCode", {}).get("name")
    before = len(counts.failures)
    for target in sorted(targets):
        if target not in results:
            counts.fail(f"{target} (not built, or not run)")
        for result in results.get(target, {}).values():
            xml = xml_of(result)
            if xml is None:
                counts.fail(f"{target} (no test.xml)")
                continue
            failed = add_xml(xml, target, counts)
            status = result.get("status")
            if status != "PASSED" and failed == 0:
                counts.fail(f"{target} ({status})")
    if exit_name != "SUCCESS" and len(counts.failures) == before:
        counts.fail(f"bazel ({exit_name or 'it did not finish'})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", action="append", default=[],
                        help="a build event JSON file of bazel test")
    parser.add_argument("--xml", action="append", default=[],
                        help="a JUnit XML file")
    flags = parser.parse_args()
    counts = Counts()
    for path in flags.xml:
        add_xml(path, os.path.splitext(os.path.basename(path))[0], counts)
    for path in flags.events:
        add_events(path, counts)
    for reason in counts.reasons:
        print(f"SKIPPED: {reason}")
    if counts.skipped:
        print(f"{counts.skipped} skipped")
    for name in counts.failures:
        print(f"FAILED: {name}")
    print(counts.line())
    return 0 if counts.ok() else 1


if __name__ == "__main__":
    sys.exit(main())
