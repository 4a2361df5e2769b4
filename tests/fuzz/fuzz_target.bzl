"""libFuzzer programs."""

load("//:build_defs.bzl", "ferry_cc_binary")

def libfuzzer_program(name):
    """The program NAME_fuzzer of the target fuzz_NAME.

    Built by `bazel build --config=fuzz` only: .bazelrc leaves the tag out of
    other builds.

    Args:
      name: a name in fuzz_targets.h.
    """
    ferry_cc_binary(
        name = name + "_fuzzer",
        testonly = True,
        srcs = ["libfuzzer_main.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        local_defines = ["FERRY_FUZZ_TARGET=fuzz_" + name],
        tags = ["fuzz"],
        deps = [
            ":fuzz_targets",
            "@system//:absl",
            "@system//:protobuf",
        ],
    )
