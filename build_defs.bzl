"""The project's build rules: warnings, layering and test sizes in one place."""

load("//third_party:precompiled_header.bzl", "precompiled_header", "precompiled_header_copts")

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wimplicit-fallthrough",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wshadow",
    "-Wthread-safety",
    "-Wunused",
    "-Werror",
    "-Wno-error=deprecated-declarations",
    "-fstack-protector-strong",
]

_LINKOPTS = [
    "-Wl,-z,relro,-z,now",
]

# Tests' own sources compile in two thirds of the time; what they test is
# optimized.
_NOT_OPTIMIZED = ["-O0"]

# What benchmarks measure with, and so is optimized all the same: they time
# calls of the CUDA API that does nothing.
_MEASURED = ["tests/benchmarks", "platform/device/cuda/testing"]

# Their libraries become part of a shared one; see .bazelrc, supports_pic.
_POSITION_INDEPENDENT = ["tests/gpu/dry"]

# Sources of targets that name LibTorch themselves read its headers precompiled:
# some two seconds in place of eight.
_LIBTORCH = "@wheels//:libtorch"

def _is_optimized():
    package = native.package_name()
    if package in _MEASURED:
        return True
    return not (package.startswith("tests/") or package.endswith("/testing"))

def _precompiled(optimized):
    return "libtorch_pch" if optimized else "libtorch_pch_not_optimized"

def _compiled(optimized, copts, deps):
    """The attributes of a C++ rule that say how its sources are compiled."""
    all_copts = _COPTS + ([] if optimized else _NOT_OPTIMIZED) + copts
    if native.package_name() in _POSITION_INDEPENDENT:
        all_copts = all_copts + ["-fPIC"]
    if _LIBTORCH not in deps:
        return {"copts": all_copts, "deps": deps}
    header = _precompiled(optimized)
    return {
        "copts": all_copts + precompiled_header_copts("third_party/%s.pch" % header),
        "deps": deps + ["//third_party:" + header],
    }

def ferry_cc_library(name, srcs = [], copts = [], deps = [], **kwargs):
    """A library of the project. One target per header.

    Static only: a shared form besides would compile every source twice.
    """
    if srcs:
        kwargs.update(_compiled(_is_optimized(), copts, deps))
    else:
        kwargs.update(copts = _COPTS + copts, deps = deps)
    native.cc_library(
        name = name,
        srcs = srcs,
        linkstatic = True,
        **kwargs
    )

def ferry_cc_binary(name, copts = [], deps = [], linkopts = [], **kwargs):
    """A program of the project."""
    kwargs.update(_compiled(_is_optimized(), copts, deps))
    native.cc_binary(
        name = name,
        linkopts = _LINKOPTS + linkopts,
        **kwargs
    )

def ferry_cc_shared_library(name, exports, **kwargs):
    """A shared library, to be preloaded, whose symbols `exports` names.

    Args:
      name: the file: "libfoo.so".
      exports: a version script of the linker.
      **kwargs: as of ferry_cc_binary.
    """
    ferry_cc_binary(
        name = name,
        additional_linker_inputs = [exports],
        linkopts = ["-Wl,--version-script=$(location %s)" % exports],
        linkshared = True,
        **kwargs
    )

def ferry_cc_test(name, copts = [], deps = [], optimized = False, size = "small", linkstatic = True, **kwargs):
    """A GoogleTest test with gtest's main.

    Linked statically, as the programs are: between shared objects of one test
    the linker drops system libraries that only an inner one uses.
    """
    kwargs.update(_compiled(optimized, copts, deps + ["@system//:gtest_main"]))
    native.cc_test(
        name = name,
        size = size,
        linkstatic = linkstatic,
        **kwargs
    )

def libtorch_precompiled_header(optimized, visibility):
    """LibTorch's headers for sources that are, or are not, optimized."""
    name = _precompiled(optimized)
    precompiled_header(
        name = name,
        out = name + ".pch",
        copts = _COPTS + ([] if optimized else _NOT_OPTIMIZED),
        header = "libtorch_pch.h",
        deps = [_LIBTORCH],
        visibility = visibility,
    )

def ferry_py_test(name, main, data = [], size = "small", **kwargs):
    """A test of Python's unittest, run by Debian's Python; its cases count.

    Args:
      name: the test.
      main: the file that holds the test cases.
      data: what it reads, runs or imports: modules of the same folder.
      size: as everywhere.
      **kwargs: as everywhere.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools:run_unittest.py"],
        args = ["$(rootpath %s)" % main],
        data = [main] + data,
        **kwargs
    )

def text_literal(name, src, out):
    """A text file as a C++ string literal, to be included where one may stand.

    Args:
      name: the target.
      src: the text.
      out: the file to include.
    """
    native.genrule(
        name = name,
        srcs = [src],
        outs = [out],
        cmd = "(echo 'R\"text('; cat $<; echo ')text\"') > $@",
    )

def ferry_proto_library(name, srcs, deps = [], services = [], visibility = None):
    """C++ classes of .proto files, under their canonical names.

    The project's proto root is //proto: sources lie below it and generated
    headers are included as "ferry/v1/job.pb.h". Linked whole, so that
    reflection can describe every message.

    Args:
      name: the library.
      srcs: .proto files of this package, or labels of the same.
      deps: other ferry_proto_library targets.
      services: those of the files that hold gRPC services.
      visibility: as everywhere.
    """
    _proto_library(name, srcs, "proto", srcs, deps, services, visibility)

def imported_proto_library(name, root, files, srcs, deps = [], services = [], visibility = None):
    """As ferry_proto_library, for .proto files of another project.

    Args:
      name: the library.
      root: the directory, relative to the execution root, or absolute, that
        the files' canonical names start at.
      files: canonical names.
      srcs: labels that hold the files.
      deps: other ferry_proto_library targets.
      services: those of the files that hold gRPC services.
      visibility: as everywhere.
    """
    _proto_library(name, files, root, srcs, deps, services, visibility)

def _proto_library(name, files, root, srcs, deps, services, visibility):
    headers = []
    sources = []
    protoc = "/usr/bin/protoc -Iproto -Iexternal/wheels -I" + root
    for file in files:
        stem = file[:-len(".proto")]
        headers.append(stem + ".pb.h")
        sources.append(stem + ".pb.cc")
        if file in services:
            headers.append(stem + ".grpc.pb.h")
            sources.append(stem + ".grpc.pb.cc")
    commands = [" ".join([protoc, "--cpp_out=$(RULEDIR)"] + files)]
    if services:
        commands.append(" ".join([
            protoc,
            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
            "--grpc_out=$(RULEDIR)",
        ] + services))
    native.genrule(
        name = name + "_gen",
        srcs = srcs + ["//proto:all_protos"],
        outs = headers + sources,
        cmd = " && ".join(commands),
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        # Generated code is no business of our warnings.
        copts = ["-w"],
        includes = ["."],
        visibility = visibility,
        alwayslink = True,
        linkstatic = True,
        deps = deps + ["@system//:grpc++" if services else "@system//:protobuf"],
    )
