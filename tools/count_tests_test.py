"""The counts are true, above all when something did not run."""

import json
import os
import tempfile
import unittest

import count_tests

SUITE = """<testsuites><testsuite>
  <testcase name="a" status="run" result="completed"/>
  <testcase name="b" status="run" result="completed"><failure/></testcase>
  <testcase name="c" status="run" result="skipped"/>
  <testcase name="d" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""

PASSING = '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'


class CountTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.counts = count_tests.Counts()

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def add_events(self, targets, results, exit_name="SUCCESS"):
        """results: (target, status, XML or None)."""
        events = [{"id": {"targetConfigured": {"label": target}},
                   "configured": {"testSize": "SMALL"}} for target in targets]
        events.append({"id": {"targetConfigured": {"label": "//a:library"}},
                       "configured": {"targetKind": "cc_library rule"}})
        for number, (target, status, xml) in enumerate(results):
            outputs = []
            if xml is not None:
                path = self.write(f"{number}.xml", xml)
                outputs.append({"name": "test.xml", "uri": f"file://{path}"})
            events.append({
                "id": {"testResult": {"label": target, "run": 1, "shard": 1,
                                      "attempt": number}},
                "testResult": {"status": status, "testActionOutput": outputs}})
        if exit_name:
            events.append({"id": {"buildFinished": {}},
                           "finished": {"exitCode": {"name": exit_name}}})
        path = self.write("events", "\n".join(map(json.dumps, events)))
        count_tests.add_events(path, self.counts)

    def test_counts_cases(self):
        self.add_events(["//a:t"], [("//a:t", "FAILED", SUITE)], "TESTS_FAILED")
        self.assertEqual("1 passed, 1 failed", self.counts.line())
        self.assertEqual(2, self.counts.skipped)
        self.assertFalse(self.counts.ok())

    def test_tells_once_why_cases_were_skipped(self):
        skipped = '<testcase name="a"><skipped>no GPU</skipped></testcase>'
        self.add_events(["//a:t"], [
            ("//a:t", "PASSED", f"<testsuite>{skipped}{skipped}</testsuite>")])
        self.assertEqual("0 passed, 0 failed", self.counts.line())
        self.assertEqual(2, self.counts.skipped)
        self.assertEqual(["//a:t: no GPU"], list(self.counts.reasons))

    def test_all_passed(self):
        self.add_events(["//a:t"], [("//a:t", "PASSED", PASSING)])
        self.assertEqual("2 passed, 0 failed", self.counts.line())
        self.assertTrue(self.counts.ok())

    def test_target_that_was_not_built_fails_once(self):
        self.add_events(["//a:t", "//a:u"], [("//a:t", "PASSED", PASSING)],
                        "BUILD_FAILURE")
        self.assertEqual("2 passed, 1 failed", self.counts.line())

    def test_target_without_xml_fails_once(self):
        self.add_events(["//a:t"], [("//a:t", "PASSED", None)])
        self.assertEqual("0 passed, 1 failed", self.counts.line())

    def test_target_without_a_case_fails_once(self):
        self.add_events(["//a:t"], [("//a:t", "PASSED", "<testsuites/>")])
        self.assertEqual("0 passed, 1 failed", self.counts.line())

    def test_timeout_with_clean_xml_fails(self):
        self.add_events(["//a:t"], [("//a:t", "TIMEOUT", PASSING)],
                        "TESTS_FAILED")
        self.assertEqual("2 passed, 1 failed", self.counts.line())

    def test_a_later_attempt_replaces_the_earlier(self):
        self.add_events(["//a:t"], [("//a:t", "FAILED", SUITE),
                                    ("//a:t", "PASSED", PASSING)])
        self.assertEqual("2 passed, 0 failed", self.counts.line())

    def test_library_that_does_not_build_fails(self):
        self.add_events(["//a:t"], [("//a:t", "PASSED", PASSING)],
                        "BUILD_FAILURE")
        self.assertEqual("2 passed, 1 failed", self.counts.line())

    def test_bazel_that_was_killed_fails(self):
        self.add_events(["//a:t"], [("//a:t", "PASSED", PASSING)], None)
        self.assertEqual("2 passed, 1 failed", self.counts.line())

    def test_missing_files_fail(self):
        count_tests.add_events("/nowhere", self.counts)
        count_tests.add_xml("/nowhere", "lint", self.counts)
        self.assertEqual("0 passed, 2 failed", self.counts.line())

    def test_nothing_ran(self):
        self.assertFalse(self.counts.ok())


if __name__ == "__main__":
    unittest.main()
