"""Precompiled headers: parsed once, read by every source that names one.

Clang finds a header's text again by the path that it had when it was
precompiled, and each sandbox has a path of its own. So paths below the
execution root are stored relative to it (-relocatable-pch), and
precompiled_header_copts() says where to look for them.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context

    # Only what layering_check says of the language is repeated here: one
    # cannot name a module and precompile a header at once.
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features + ["layering_check", "module_maps"],
    )
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
    )
    output = ctx.outputs.out
    arguments = ctx.actions.args()
    arguments.add_all(cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = variables,
    ))
    arguments.add_all(["-fmodules-strict-decluse", "-fpch-instantiate-templates"])
    arguments.add_all(["-Xclang", "-relocatable-pch"])

    # Bazel knows whether a header changed; a fresh copy of it has another time.
    arguments.add_all(["-Xclang", "-fno-pch-timestamp"])
    arguments.add_all(["-x", "c++-header", ctx.file.header, "-o", output])
    ctx.actions.run_shell(
        inputs = depset(
            [ctx.file.header],
            transitive = [context.headers, toolchain.all_files],
        ),
        outputs = [output],
        arguments = [arguments],
        command = "exec {} \"$@\" -Xclang -isysroot -Xclang \"$PWD\"".format(
            cc_common.get_tool_for_action(
                feature_configuration = features,
                action_name = CPP_COMPILE_ACTION_NAME,
            ),
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
            variables = variables,
        ),
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling %s" % ctx.file.header.short_path,
    )
    return [
        DefaultInfo(files = depset([output])),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset([output, ctx.file.header]),
        )),
    ]

def precompiled_header_copts(file):
    """What a source is compiled with that reads the precompiled header `file`.

    Args:
      file: `out` of a precompiled_header(), relative to the repository.
    """
    return [
        "-Xclang",
        "-isysroot",
        "-Xclang",
        ".",
        "-include-pch",
        "$(BINDIR)/" + file,
    ]

def without_precompiled_header(copts):
    """`copts` before precompiled_header_copts() were added to their end."""
    if copts[-2:-1] == ["-include-pch"]:
        return copts[:-len(precompiled_header_copts(""))]
    return copts

precompiled_header = rule(
    doc = "A dependency of targets whose copts have precompiled_header_copts().",
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "those of the sources that read it"),
        "deps": attr.label_list(providers = [CcInfo]),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "out": attr.output(mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
