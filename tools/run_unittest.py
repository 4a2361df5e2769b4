#!/usr/bin/python3
"""Runs a file of Python unittests and writes its cases to $XML_OUTPUT_FILE.

What ferry_py_test of build_defs.bzl starts. Modules beside the file can be
imported when the target names them in `data`.
"""

import importlib.util
import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class CaseResult(unittest.TextTestResult):
    """Keeps, for each case, its time and what went wrong."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.suite = ElementTree.Element("testsuite", name="unittest")
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def add_case(self, test, problem=None, text=""):
        classname, _, name = test.id().rpartition(".")
        case = ElementTree.SubElement(
            self.suite, "testcase", classname=classname, name=name,
            time=f"{time.monotonic() - self.started:.3f}")
        if problem:
            ElementTree.SubElement(case, problem).text = text

    def addSuccess(self, test):
        super().addSuccess(test)
        self.add_case(test)

    def addError(self, test, err):
        super().addError(test, err)
        self.add_case(test, "error", self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.add_case(test, "failure", self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.add_case(subtest, "failure", str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.add_case(test, "skipped", reason)


def main(path):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(
        resultclass=CaseResult, verbosity=2).run(tests)
    xml = os.environ.get("XML_OUTPUT_FILE")
    if xml:
        ElementTree.ElementTree(result.suite).write(xml)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
