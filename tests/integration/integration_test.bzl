"""Tests that start the real ferryd and workers."""

load("//:build_defs.bzl", "ferry_cc_test")

def integration_test(name, deps = [], **kwargs):
    """A test of the real programs, from NAME.cc.

    Args:
      name: the target.
      deps: besides tests/support.
      **kwargs: as those of ferry_cc_test.
    """
    ferry_cc_test(
        name = name,
        srcs = [name + ".cc"],
        deps = deps + [
            "//proto:ferry_v1",
            "//proto:grpc_health",
            "//tests/support:child_process",
            "//tests/support:closing_check",
            "//tests/support:daemon",
            "//tests/support:daemon_fixture",
            "//tests/support:error_details",
            "//tests/support:eventually",
            "//tests/support:files",
            "//tests/support:generate_call",
            "//tests/support:job_calls",
            "//tests/support:packages",
            "//tests/support:png_image",
            "//tests/support:processes",
            "@system//:absl",
            "@system//:grpc++",
            "@system//:gtest",
        ],
        **kwargs
    )
