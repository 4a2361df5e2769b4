"""run_on_cpus runs what it says, and no failure is lost."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock


def load():
    # Its name has no suffix.
    loader = importlib.machinery.SourceFileLoader(
        "run_on_cpus", "tests/run_on_cpus")
    spec = importlib.util.spec_from_loader("run_on_cpus", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


run_on_cpus = load()

# Writes its case as GoogleTest does, and fails in a row of its arguments.
PROGRAM = textwrap.dedent("""
    import os, sys
    value = os.environ.get("ATEN_CPU_CAPABILITY", "none")
    wrong = value == sys.argv[1]
    if sys.argv[2:] != ["silently"] or not wrong:
        with open(os.environ["XML_OUTPUT_FILE"], "w") as file:
            file.write('<testsuites><testsuite><testcase classname="A" name="'
                       + value + '">' + ("<failure/>" if wrong else "")
                       + "</testcase></testsuite></testsuites>")
    sys.exit(wrong)
""")

ROWS = [({"ATEN_CPU_CAPABILITY": "default"}, set()),
        ({"ATEN_CPU_CAPABILITY": "avx2"}, {"avx2"}),
        ({"MKL_CBWR": "COMPATIBLE"}, set()),
        ({"ATEN_CPU_CAPABILITY": "avx512"}, {"avx512f", "avx512vl"})]


class RunOnCpusTest(unittest.TestCase):

    def run_rows(self, *arguments, flags=("avx2", "avx512f", "avx512vl")):
        """Returns whether it passed, and {case: what stands in it}."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(folder, "program.py")
        program.write_text(PROGRAM)
        results = os.path.join(folder, "all.xml")
        self.enterContext(mock.patch.dict(
            os.environ, {"XML_OUTPUT_FILE": results,
                         "ATEN_CPU_CAPABILITY": "of the caller"}))
        with contextlib.redirect_stdout(io.StringIO()):
            passed = run_on_cpus.run_program(
                [sys.executable, str(program), *arguments],
                *run_on_cpus.split_rows(ROWS, set(flags)))
        cases = ElementTree.parse(results).getroot().iter("testcase")
        return passed, {
            f"{case.get('classname', '')}.{case.get('name')}":
                [child.tag for child in case] for case in cases}

    def test_each_row_has_its_own_environment(self):
        passed, cases = self.run_rows("nothing")
        self.assertTrue(passed)
        self.assertEqual(cases, {
            "ATEN_CPU_CAPABILITY=default A.default": [],
            "ATEN_CPU_CAPABILITY=avx2 A.avx2": [],
            "MKL_CBWR=COMPATIBLE A.none": [],
            "ATEN_CPU_CAPABILITY=avx512 A.avx512": []})

    def test_one_row_that_fails_fails_all(self):
        passed, cases = self.run_rows("avx2")
        self.assertFalse(passed)
        self.assertEqual(cases["ATEN_CPU_CAPABILITY=avx2 A.avx2"], ["failure"])
        self.assertEqual(len(cases), 4)

    def test_a_program_without_results_has_failed(self):
        passed, cases = self.run_rows("default", "silently")
        self.assertFalse(passed)
        self.assertEqual(
            cases["ATEN_CPU_CAPABILITY=default.the program"], ["failure"])

    def test_what_the_processor_cannot_do_is_skipped(self):
        passed, cases = self.run_rows("avx512", flags=("avx2", "avx512f"))
        self.assertTrue(passed)
        self.assertEqual(cases[".ATEN_CPU_CAPABILITY=avx512"], ["skipped"])
        self.assertEqual(len(cases), 4)

    def test_rows_are_those_of_the_project(self):
        names = {run_on_cpus.name_of(row) for row, _ in run_on_cpus.ROWS}
        self.assertEqual(names, {
            "ATEN_CPU_CAPABILITY=default", "ATEN_CPU_CAPABILITY=avx2",
            "ATEN_CPU_CAPABILITY=avx512", "MKL_CBWR=COMPATIBLE",
            "MKL_CBWR=AVX2", "ONEDNN_MAX_CPU_ISA=SSE41",
            "ONEDNN_MAX_CPU_ISA=AVX2", "OMP_NUM_THREADS=1",
            "OMP_NUM_THREADS=2"})

    def test_reads_the_processors_flags(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("model name\t: X\nflags\t\t: sse2 avx2 fma\nbugs\t: y\n")
            file.flush()
            self.assertEqual(run_on_cpus.processor_flags(file.name),
                             {"sse2", "avx2", "fma"})


if __name__ == "__main__":
    unittest.main()
