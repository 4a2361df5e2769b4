"""Each rule finds what it is for, and lets good code pass."""

import unittest

import source_rules

GOOD_BUILD = 'package(default_visibility = ["//visibility:private"])\n'


class IncludesTest(unittest.TestCase):

    def violations(self, path, include):
        return source_rules.check_includes({path: f"\n#include {include}\n"})

    def test_reaches_along_the_arrows_only(self):
        self.assertEqual([], self.violations(
            "offload/a.cc", '"platform/device/platform.h"'))
        self.assertEqual(
            ["offload/a.cc:2: must not include pipelines/pipeline.h"],
            self.violations("offload/a.cc", '"pipelines/pipeline.h"'))
        self.assertTrue(self.violations(
            "server/frontend/a.cc", '"offload/offload_config.h"'))
        self.assertTrue(self.violations(
            "client/a.cc", '"ferry/worker/v1/worker_service.pb.h"'))

    def test_knows_libraries_whatever_the_quotes(self):
        self.assertEqual([], self.violations(
            "platform/base/a.cc", "<spdlog/spdlog.h>"))
        self.assertTrue(self.violations("offload/a.cc", "<grpcpp/grpcpp.h>"))
        self.assertTrue(self.violations("offload/a.cc", '"grpcpp/grpcpp.h"'))
        self.assertTrue(self.violations("client/a.cc", "<png.h>"))

    def test_the_system_is_free(self):
        self.assertEqual([], self.violations("client/a.cc", "<vector>"))
        self.assertEqual([], self.violations("client/a.cc", "<sys/stat.h>"))

    def test_torchscript_stays_in_its_folder(self):
        header = '"torch/script.h"'
        self.assertEqual([], self.violations(
            "pipelines/torchscript/a.cc", header))
        self.assertEqual([], self.violations("pipelines/a_test.cc", header))
        self.assertTrue(self.violations("pipelines/a.cc", header))
        self.assertTrue(self.violations("server/core/a_test.cc", header))

    def test_gtest_is_for_tests(self):
        self.assertEqual([], self.violations(
            "server/core/a_test.cc", "<gtest/gtest.h>"))
        self.assertTrue(self.violations(
            "server/core/a.cc", "<gtest/gtest.h>"))

    def test_a_new_folder_needs_a_row(self):
        self.assertTrue(self.violations("elsewhere/a.cc", "<vector>"))


class WordsTest(unittest.TestCase):

    def violations(self, path, text):
        return source_rules.check_words({path: text})

    def test_names_file_line_and_advice(self):
        self.assertEqual(
            ["offload/a.cc:2: std::mutex: use platform/base/mutex.h, which is "
             "annotated"],
            self.violations("offload/a.cc", "\nstd::mutex lock;\n"))
        self.assertEqual([], self.violations(
            "platform/base/mutex.h", "std::mutex lock;\n"))

    def test_finds_each_word(self):
        for word in ("std::this_thread::sleep_for(d)", "usleep(3)", "absl::Now()",
                     "std::chrono::system_clock::now();", 'getenv("HOME")',
                     "atoi(text)", "std::stoi(text)", "std::regex r", "thread_.detach()",
                     "std::condition_variable c", "strtol(a, b, 10)",
                     "mutex_.unlock()", "other->mutex->lock()"):
            self.assertTrue(self.violations("server/core/a.cc", word), word)

    def test_comments_and_strings_are_free(self):
        self.assertEqual([], self.violations(
            "offload/a.cc",
            '// std::mutex\n/* atoi(\n */ Log("std::regex \\" getenv");'
            'R"x(absl::Now())x";'))

    def test_deadlines_of_grpc_are_real_time(self):
        self.assertEqual([], self.violations(
            "client/a.cc", "std::chrono::system_clock::now() + timeout"))

    def test_main_reads_the_environment(self):
        self.assertEqual([], self.violations(
            "server/worker/worker_main.cc", 'getenv("RANK")'))


class SizesTest(unittest.TestCase):

    def test_limits_by_kind(self):
        for path, limit in (("offload/a.h", 250), ("offload/a.cc", 500),
                            ("offload/a_test.cc", 800)):
            self.assertEqual(
                [], source_rules.check_sizes({path: "\n" * limit}))
            self.assertEqual(1, len(
                source_rules.check_sizes({path: "\n" * (limit + 1)})))


class HeadersTest(unittest.TestCase):

    def test_pragma_once(self):
        self.assertEqual([], source_rules.check_headers(
            {"a/a.h": "// What.\n#pragma once\n"}))
        self.assertEqual(1, len(source_rules.check_headers(
            {"a/a.h": "#ifndef A\n"})))


class BuildFilesTest(unittest.TestCase):

    def violations(self, path, text):
        return source_rules.check_build_files({path: text})

    def test_private_by_default(self):
        self.assertEqual([], self.violations("offload/BUILD", GOOD_BUILD))
        self.assertTrue(self.violations("offload/BUILD", "\n"))

    def test_no_public_targets_but_protos(self):
        public = GOOD_BUILD + 'visibility = ["//visibility:public"],\n'
        self.assertTrue(self.violations("offload/BUILD", public))
        self.assertEqual([], self.violations("proto/BUILD", public))

    def test_flags_belong_to_build_defs(self):
        for line in ('cc_library(name = "a")', '    linkopts = ["-lm"],',
                     '    copts = ["-w"],'):
            self.assertTrue(self.violations(
                "offload/BUILD", GOOD_BUILD + line), line)
            self.assertEqual([], self.violations(
                "third_party/BUILD", GOOD_BUILD + line))
        self.assertEqual([], self.violations(
            "offload/BUILD", GOOD_BUILD + 'ferry_cc_library(name = "a")'))


class ContractsTest(unittest.TestCase):

    def violations(self, header, source="", path="offload/a"):
        return source_rules.check_contracts(
            {path + ".h": header, path + ".cc": source})

    def test_each_contract_is_checked(self):
        header = "// REQUIRES: a.\nvoid f();\n// Of it. REQUIRES:\n// b.\n"
        checks = "FERRY_CHECK(a);\nFERRY_CHECK_EQ(b, 1);\n"
        self.assertEqual([], self.violations(header, checks))
        self.assertEqual([], self.violations(header + checks))
        wrong = self.violations(header, "FERRY_CHECK(a);  // FERRY_CHECK\n")
        self.assertEqual(1, len(wrong))
        self.assertTrue(wrong[0].startswith(
            "offload/a.h:3: says REQUIRES 2 times, and it and its .cc have 1 "
            "FERRY_CHECKs"))

    def test_a_header_may_stand_alone(self):
        header = {"platform/a.h": "// REQUIRES: a.\n"}
        self.assertTrue(source_rules.check_contracts(header))

    def test_annotations_sources_and_tests_are_free(self):
        self.assertEqual([], self.violations("void f() REQUIRES_LOCK(m);"))
        self.assertEqual([], self.violations("", "// REQUIRES: a.\n"))
        self.assertEqual([], self.violations(
            "// REQUIRES: a.\n", path="offload/testing/a"))


class DocumentsTest(unittest.TestCase):

    def violations(self, text, path="docs/a.md"):
        return source_rules.check_documents({
            path: text, "README.md": "", "docs/picture.png": None,
            "server/core/job.h": "", "proto/ferry/v1/job.proto": None})

    def test_links_lead_somewhere(self):
        for link in ("picture.png", "../README.md", "../server", "a.md#part",
                     "#part", "https://example.com/x.md", 'a.md "title"'):
            self.assertEqual([], self.violations(f"[text]({link})"), link)
        self.assertEqual(["docs/a.md:2: there is no README.md"],
                         self.violations("\n![text](README.md)"))

    def test_paths_in_code_exist(self):
        for code in ("server/core", "server/core/", "server/core/job.h",
                     "README.md", "picture.png", "docs/picture.png",
                     "ferry/v1", "server/NAME", "bazel-bin/x", "--a=server/b",
                     "server/{a,b}"):
            self.assertEqual([], self.violations(f"See `{code}`."), code)
        for code in ("server/frontend", "server/core/job.cc", "STYLE.md",
                     "proto/ferry/v2/"):
            self.assertEqual([f"docs/a.md:1: there is no {code}"],
                             self.violations(f"See `{code}`."))

    def test_other_files_are_free(self):
        self.assertEqual([], self.violations("`server/b`", "docs/a.py"))


if __name__ == "__main__":
    unittest.main()
