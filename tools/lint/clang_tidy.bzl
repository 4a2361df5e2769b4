"""clang-tidy as an aspect: one cached action for each source of the project.

    bazel build --config=lint //...

Configured by the root's .clang-tidy. A source that is generated, or of another
repository, is left alone. So is a test: each source costs some ten seconds,
and all of them together would take longer than all else that a change must
pass.
"""

load("//third_party:precompiled_header.bzl", "without_precompiled_header")

_EXTENSIONS = ["cc"]

def _own_sources(rule):
    sources = []
    for target in getattr(rule.attr, "srcs", []):
        for file in target.files.to_list():
            own = file.is_source and not file.owner.workspace_name
            if own and file.extension in _EXTENSIONS:
                sources.append(file)
    return sources

def _compiler_arguments(target, ctx):
    context = target[CcInfo].compilation_context
    arguments = ctx.actions.args()
    arguments.add_all(ctx.fragments.cpp.copts)
    arguments.add_all(ctx.fragments.cpp.cxxopts)

    # What the compiler warns of is the build's business. Precompiled headers
    # would hide an include that is missing.
    own_copts = [copt for copt in ctx.rule.attr.copts if not copt.startswith("-W")]
    arguments.add_all(without_precompiled_header(own_copts))
    arguments.add("-w")
    arguments.add_all(context.defines, before_each = "-D")
    arguments.add_all(context.local_defines, before_each = "-D")
    arguments.add_all(context.quote_includes, before_each = "-iquote")
    arguments.add_all(context.includes, before_each = "-I")
    arguments.add_all(context.system_includes, before_each = "-isystem")
    return arguments

def _clang_tidy_impl(target, ctx):
    if CcInfo not in target or ctx.rule.kind not in ["cc_library", "cc_binary"]:
        return []
    if ctx.rule.attr.testonly:
        return []
    compiler_arguments = _compiler_arguments(target, ctx)
    reports = []
    for source in _own_sources(ctx.rule):
        report = ctx.actions.declare_file(
            "%s.%s.clang_tidy" % (target.label.name, source.basename),
        )
        arguments = ctx.actions.args()
        arguments.add(ctx.file._clang_tidy)
        arguments.add(report)
        arguments.add(ctx.file._config)
        arguments.add(source)
        ctx.actions.run_shell(
            inputs = depset(
                [source, ctx.file._config, ctx.file._clang_tidy] +
                ctx.files._clang_tidy_headers,
                transitive = [target[CcInfo].compilation_context.headers],
            ),
            outputs = [report],
            arguments = [arguments, compiler_arguments],
            # Quiet when all is well: clang-tidy counts suppressed warnings.
            command = """
                clang_tidy="$1"; report="$2"; config="$3"; source="$4"; shift 4
                if ! "$clang_tidy" --quiet --config-file="$config" \
                    "$source" -- "$@" >"$report" 2>&1; then
                  cat "$report"
                  exit 1
                fi
            """,
            mnemonic = "ClangTidy",
            progress_message = "Tidying %s" % source.short_path,
        )
        reports.append(report)
    return [OutputGroupInfo(clang_tidy = depset(reports))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_clang_tidy": attr.label(
            default = "@lint_tools//:clang_tidy/data/bin/clang-tidy",
            allow_single_file = True,
        ),
        "_clang_tidy_headers": attr.label(
            default = "@lint_tools//:clang_tidy_headers",
        ),
        "_config": attr.label(
            default = "//:.clang-tidy",
            allow_single_file = True,
        ),
    },
    fragments = ["cpp"],
)
