"""The manifests of deploy/kustomize as a cluster gets them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

_TEST_TOOLS = pathlib.Path("../test_tools").absolute()
KUSTOMIZE = pathlib.Path("deploy/kustomize")

sys.path.append(str(_TEST_TOOLS))

# pylint: disable=wrong-import-position
import yaml


def render(folder):
    """The objects of a folder of deploy/kustomize, by kind."""
    # A copy, since it does not follow Bazel's links, with a home for its cache.
    with tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"]) as home:
        copy = shutil.copytree(KUSTOMIZE, pathlib.Path(home, "kustomize"))
        result = subprocess.run(
            [_TEST_TOOLS / "bin/kubectl", "kustomize", copy / folder],
            env={"HOME": home}, check=False, text=True, capture_output=True)
    if result.returncode:
        raise AssertionError(result.stderr)
    objects = list(yaml.safe_load_all(result.stdout))
    by_kind = {item["kind"]: item for item in objects}
    assert len(by_kind) == len(objects), "two objects of one kind"
    return by_kind


class Pod:
    """What the Deployment's pod runs, with the container's paths on this
    machine: its ConfigMap is written below `folder`, and every package that
    it names is the demo's."""

    def __init__(self, objects, folder):
        self.spec = objects["Deployment"]["spec"]["template"]["spec"]
        (self.container,) = self.spec["containers"]
        self.package = str(pathlib.Path("pipelines/demo/package").absolute())
        self._mounts = {}
        volumes = {volume["name"]: volume
                   for volume in self.spec.get("volumes", [])}
        for mount in self.container.get("volumeMounts", []):
            if "configMap" in volumes[mount["name"]]:
                local = pathlib.Path(folder, mount["name"])
                self._mounts[mount["mountPath"]] = str(local)
                local.mkdir()
                for name, text in objects["ConfigMap"]["data"].items():
                    (local / name).write_text(self._localize(text))
        self.arguments = [self._localize(argument)
                          for argument in self.container["args"]]

    def _localize(self, text):
        for path, local in self._mounts.items():
            text = text.replace(path, local)
        return re.sub(r"/(opt/ferry/pipelines/demo|packages/[\w-]+)",
                      self.package, text)
