"""Which programs that make containers this machine has."""

_TOOLS = ["buildah", "debootstrap", "podman", "runc"]

def _container_tools_impl(repository):
    found = [tool for tool in _TOOLS if repository.which(tool)]
    repository.file("tools.txt", "\n".join(found))
    repository.file("BUILD", "exports_files([\"tools.txt\"])")

# A test that depends on its tools.txt runs anew once they are installed. Looked
# up whenever Bazel's server starts.
container_tools = repository_rule(
    implementation = _container_tools_impl,
    environ = ["PATH"],
    local = True,
)
