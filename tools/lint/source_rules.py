"""Rules of the tree that neither the compiler nor Bazel checks.

Each rule takes {path: text} and gives a list of "path:line: what is wrong".
The text of files that no rule reads may be None.
"""

import posixpath
import re

# What the files of a folder may include, beside the folder itself: other
# folders of the project, generated protos ("ferry/…", "google/rpc"), and
# libraries. The longest matching folder counts. Bazel's visibility and
# layering_check hold the same line for targets; headers under /usr/include are
# beyond them.
ALLOWED_INCLUDES = {
    "platform/base": ["absl", "nlohmann", "openssl", "spdlog"],
    "platform/os": ["absl", "platform/base"],
    "platform/device": ["ATen", "absl", "c10", "cuda", "platform/base"],
    "platform/distributed": [
        "ATen", "absl", "c10", "cuda", "gloo", "nccl", "platform/base",
        "platform/device", "platform/os", "torch/distributed",
    ],
    "offload": [
        "ATen", "absl", "c10", "nlohmann", "openssl", "platform/base",
        "platform/device", "platform/distributed", "platform/os",
    ],
    "pipelines": [
        "ATen", "absl", "c10", "ferry/config", "ferry/v1", "google/protobuf",
        "nlohmann", "offload", "openssl", "platform/base", "platform/device",
        "png", "sentencepiece", "turbojpeg", "webp",
    ],
    # The one folder that pays for TorchScript's headers.
    "pipelines/torchscript": [
        "ATen", "absl", "c10", "ferry/config", "ferry/v1", "google/protobuf",
        "nlohmann", "offload", "openssl", "pipelines", "platform/base",
        "platform/device", "torch",
    ],
    "server/core": [
        "absl", "ferry/config", "ferry/v1", "ferry/worker", "google/protobuf",
        "google/rpc", "platform/base",
    ],
    "server/ipc": [
        "absl", "ferry/config", "ferry/v1", "ferry/worker", "google/protobuf",
        "google/rpc", "grpc/support", "grpcpp", "platform/base", "platform/os",
        "server/core",
    ],
    "server/supervisor": [
        "absl", "ferry/config", "ferry/v1", "ferry/worker", "google/protobuf",
        "google/rpc", "grpcpp", "platform/base", "platform/os", "server/core",
        "server/ipc",
    ],
    "server/frontend": [
        "absl", "ferry/config", "ferry/v1", "google/protobuf", "google/rpc",
        "grpc/health", "grpc/reflection", "grpcpp", "platform/base",
        "platform/os", "server/core", "server/ipc", "server/supervisor",
    ],
    "server/worker": [
        "ATen", "absl", "c10", "ferry/config", "ferry/v1", "ferry/worker",
        "google/protobuf", "google/rpc", "grpcpp", "offload", "pipelines",
        "platform", "server/core", "server/ipc",
    ],
    "client": [
        "absl", "ferry/v1", "google/protobuf", "google/rpc", "grpc/health",
        "grpcpp", "nlohmann", "openssl", "platform/base", "platform/os",
    ],
    # Precompiled headers.
    "third_party": ["torch"],
}

TEST_LIBRARIES = [
    "benchmark", "gmock", "gtest", "nlohmann", "openssl", "tests/support",
]

# The supervisor is tested with real workers that misbehave.
TEST_FOLDERS = {"server/supervisor": ["server/worker"]}

# Tests in these folders may make modules and tensors of their own.
TORCH_TEST_FOLDERS = ["offload", "pipelines", "server/worker"]

# Libraries whose headers do not start with the library's name.
LIBRARY_OF_HEADER = {
    "cuda.h": "cuda",
    "cuda_runtime_api.h": "cuda",
    "nccl.h": "nccl",
    "png.h": "png",
    "sentencepiece_processor.h": "sentencepiece",
    "sentencepiece_trainer.h": "sentencepiece",
    "turbojpeg.h": "turbojpeg",
    "torch/csrc/distributed": "torch/distributed",
}

# Folders below /usr/include that belong to the system.
SYSTEM_FOLDERS = ["arpa", "linux", "net", "netinet", "sys"]

# Words that one file may use, and the reason. (pattern, exceptions, advice)
BANNED_WORDS = [
    (r"\bstd::(recursive_|shared_|timed_)?mutex\b|\bstd::condition_variable|"
     r"\babsl::(Mutex|CondVar)\b|\bpthread_mutex_",
     r"platform/base/mutex\.h", "use platform/base/mutex.h, which is annotated"),
    (r"\b\w*mutex_?(\.|->)(un)?lock\(\)", r"platform/base/mutex\.h",
     "use MutexLock or MutexUnlock: exceptions leave scopes, too"),
    (r"\bsleep_(for|until)\b|\bu?sleep\(|\bnanosleep\(|\babsl::SleepFor\b",
     r"platform/base/clock\.cc", "wait for an event, or on a Clock"),
    # gRPC's deadlines and waits on condition variables are in real time.
    (r"\bsystem_clock::now\(\)(?!\s*\+)|\bhigh_resolution_clock\b|"
     r"\babsl::Now\b|\bgettimeofday\(",
     r"platform/base/clock\.cc|.*_test\.cc|tests/.*",
     "time comes through platform/base/clock.h"),
    (r"\b(secure_)?getenv\b",
     r".*main\.cc|.*_test\.cc|.*/testing/.*|tests/.*",
     "flags and environment are read in main"),
    (r"\b(std::)?(ato[ifl]|ato(ll)|strto(l|ll|ul|ull|d|f))\(|"
     r"\bstd::sto(i|l|ll|ul|ull|f|d)\b",
     r"", "use absl::SimpleAtoi and its kin, which report errors"),
    (r"\bstd::regex\b", r"", "recurses on the stack; match by hand"),
    (r"\bthread\w*(\.|->)detach\(\)", r"", "every thread is owned and joined"),
    (r"\bsignal\(SIG|\bstd::signal\b",
     r".*main\.cc|platform/os/.*", "signals belong to platform/os"),
]

SIZE_LIMITS = [  # The first that matches counts.
    (re.compile(r".*_test\.cc|.*/testing/.*|tests/.*"), 800),
    (re.compile(r".*\.h"), 250),
    (re.compile(r".*\.cc"), 500),
]

_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(\\.|[^"\\\n])*"',
    re.DOTALL)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def is_cc(path):
    return path.endswith((".h", ".cc"))


def is_test(path):
    return (path.endswith("_test.cc") or "/testing/" in path
            or path.startswith("tests/"))


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def code_of(text):
    """The text with comments and strings blanked; lines stay where they are."""
    return _COMMENT_OR_STRING.sub(
        lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def allowed_includes(path):
    """What `path` may include; None when its folder is in no table."""
    if path.startswith("tests/"):
        return [""]
    folders = [folder for folder in ALLOWED_INCLUDES if is_below(path, folder)]
    if not folders:
        return None
    folder = max(folders, key=len)
    allowed = [folder] + ALLOWED_INCLUDES[folder]
    if is_test(path):
        allowed += TEST_LIBRARIES + TEST_FOLDERS.get(folder, [])
        if any(is_below(path, torch) for torch in TORCH_TEST_FOLDERS):
            allowed += ["torch"]
    return allowed


def canonical_include(header):
    for prefix, library in LIBRARY_OF_HEADER.items():
        if is_below(header, prefix):
            return library
    return header


def check_includes(files):
    """Folders include only what their arrows reach."""
    violations = []
    for path, text in sorted(files.items()):
        if not is_cc(path):
            continue
        allowed = allowed_includes(path)
        if allowed is None:
            violations.append(f"{path}:1: its folder is not in the include "
                              "table of tools/lint/source_rules.py")
            continue
        for match in _INCLUDE.finditer(text):
            quote, header = match.groups()
            name = canonical_include(header)
            system = quote == "<" and name == header and (
                "/" not in header or header.split("/")[0] in SYSTEM_FOLDERS)
            if system or any(prefix == "" or is_below(name, prefix)
                             for prefix in allowed):
                continue
            violations.append(f"{path}:{line_of(text, match.start())}: "
                              f"must not include {header}")
    return violations


def check_words(files):
    """Some calls have one place each."""
    violations = []
    for path, text in sorted(files.items()):
        if not is_cc(path):
            continue
        code = code_of(text)
        for pattern, exceptions, advice in BANNED_WORDS:
            if exceptions and re.fullmatch(exceptions, path):
                continue
            for match in re.finditer(pattern, code):
                violations.append(f"{path}:{line_of(code, match.start())}: "
                                  f"{match.group()}: {advice}")
    return violations


def check_sizes(files):
    """One concept a file."""
    violations = []
    for path, text in sorted(files.items()):
        if not is_cc(path):
            continue
        limit = next(limit for pattern, limit in SIZE_LIMITS
                     if pattern.fullmatch(path))
        lines = text.count("\n")
        if lines > limit:
            violations.append(f"{path}:1: has {lines} lines, more than {limit}")
    return violations


def check_headers(files):
    """Headers are guarded by #pragma once."""
    return [f"{path}:1: has no #pragma once"
            for path, text in sorted(files.items())
            if path.endswith(".h")
            and not re.search(r"^#pragma once$", text, re.MULTILINE)]


def check_build_files(files):
    """Packages are private, and build_defs.bzl owns compiler and linker."""
    violations = []
    for path, text in sorted(files.items()):
        if path.split("/")[-1] != "BUILD" or path.startswith("third_party/"):
            continue
        code = re.sub(r"#[^\n]*", "", text)
        if 'default_visibility = ["//visibility:private"]' not in code:
            violations.append(f"{path}:1: its package() must say "
                              'default_visibility = ["//visibility:private"]')
        for match in re.finditer(
                r"^\s*(cc_\w+)\(|\b(copts|linkopts|features) =", code,
                re.MULTILINE):
            violations.append(
                f"{path}:{line_of(code, match.start(0) + 1)}: "
                f"{match.group(1) or match.group(2)} belongs to build_defs.bzl "
                "or third_party")
        # Clients of any language may take the protos.
        if not path.startswith("proto/"):
            for match in re.finditer(r'"//visibility:public"', code):
                violations.append(
                    f"{path}:{line_of(code, match.start())}: name the users: "
                    "a package_group of //:BUILD, or packages")
    return violations


# Folders whose contracts are all checked.
CONTRACT_FOLDERS = ["client", "offload", "pipelines", "platform", "server"]

_CONTRACT = re.compile(r"\bREQUIRES:")


def check_contracts(files):
    """What a header REQUIRES is checked where it is defined."""
    violations = []
    for path, text in sorted(files.items()):
        if (not path.endswith(".h") or is_test(path) or not any(
                is_below(path, folder) for folder in CONTRACT_FOLDERS)):
            continue
        contracts = list(_CONTRACT.finditer(text))
        source = files.get(path[:-len(".h")] + ".cc") or ""
        checks = len(re.findall(r"\bFERRY_CHECK", code_of(text + source)))
        if checks < len(contracts):
            violations.append(
                f"{path}:{line_of(text, contracts[-1].start())}: says REQUIRES "
                f"{len(contracts)} times, and it and its .cc have {checks} "
                "FERRY_CHECKs: check each where its function begins, or say "
                "in other words who sees to it")
    return violations


_MARKDOWN_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)[^)]*\)")
# A path in code: `server/core`, `proto/ferry/v1/`, `STYLE.md`. Words in
# capitals, as in `pipelines/NAME`, stand for others.
_MARKDOWN_PATH = re.compile(
    r"`(?![^`]*/[A-Z]+[/`])([\w.-]+(?:/[\w.-]+)+/?|[\w.-]+\.md)`")


def check_documents(files):
    """Documents name files and folders that are there."""
    there = set(files)
    for path in files:
        while path := posixpath.dirname(path):
            there.add(path)
    violations = []
    for path, text in sorted(files.items()):
        if not path.endswith(".md"):
            continue
        folder = posixpath.dirname(path)

        def finds(name, *folders):
            return any(posixpath.normpath(posixpath.join(folder, name)) in there
                       for folder in folders)

        wrong = [match for match in _MARKDOWN_LINK.finditer(text)
                 if not finds(match.group(1), folder)]
        for match in _MARKDOWN_PATH.finditer(text):
            top, slash, _ = match.group(1).partition("/")
            # What does not begin in a folder of ours is something else.
            if not slash or finds(top, folder, ""):
                if not finds(match.group(1), folder, ""):
                    wrong.append(match)
        violations += [f"{path}:{line_of(text, match.start())}: "
                       f"there is no {match.group(1)}" for match in wrong]
    return violations


RULES = {
    "includes": check_includes,
    "words": check_words,
    "sizes": check_sizes,
    "headers": check_headers,
    "build_files": check_build_files,
    "contracts": check_contracts,
    "documents": check_documents,
}
