"""Holds the examples for Kubernetes and Nomad, and the bills of materials, against what these systems take; see
scripts/check-deploy.
"""

import json
import pathlib
import sys

import hcl2
import kubernetes_validate
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

# The schemas are those of a Kubernetes that most clusters have by now.
KUBERNETES = "1.31"
UNPRIVILEGED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}


def fail(path, what):
    sys.exit(f"error: {path}: {what}")


def containers(document):
    """The containers of an object, those that only prepare it included."""
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def check_kubernetes(path):
    """Each object fits its schema; each container is unprivileged, with a read-only root."""
    documents = list(yaml.safe_load_all(path.read_text()))
    for document in documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        try:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            fail(path, f"{name}: {error.message}")
        for container in containers(document):
            context = container.get("securityContext", {})
            if any(context.get(key) != value for key, value in UNPRIVILEGED.items()):
                fail(path, f"{name}: container {container['name']} is not confined: {context}")
            if context.get("capabilities", {}).get("drop") != ["ALL"]:
                fail(path, f"{name}: container {container['name']} keeps capabilities")
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            declared = {volume["name"] for volume in document["spec"]["template"]["spec"].get("volumes", [])}
            if mounted - declared:
                fail(path, f"{name}: no volume {mounted - declared}")
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            if not {"livenessProbe", "readinessProbe"} <= container.keys():
                fail(path, f"{name}: container {container['name']} has no probes")
    return len(documents)


def check_nomad(path):
    """The file is HCL with one job, whose tasks are unprivileged, with a read-only root."""
    with path.open() as file:
        parsed = hcl2.load(file)
    jobs = [job for block in parsed.get("job", []) for job in block.values()]
    tasks = [
        task
        for job in jobs
        for group in job.get("group", [])
        for body in group.values()
        for block in body.get("task", [])
        for task in block.values()
    ]
    if len(jobs) != 1 or not tasks:
        fail(path, "expected one job with a task")
    for task in tasks:
        config = task["config"][0]
        user = str(task.get("user", "")).strip('"')
        if user != "10001:10001" or config.get("readonly_rootfs") not in (True, "true"):
            fail(path, "a task is privileged, or may write to its root")
    return len(jobs)


def check_bill(path):
    """A bill of materials fits its schema, and names every crate once, with a licence and, unless ours, a checksum."""
    text = path.read_text()
    error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if error:
        fail(path, error)
    components = json.loads(text)["components"]
    for component in components:
        if "licenses" not in component:
            fail(path, f"{component['name']} has no licence")
        if "hashes" not in component and not component["name"].startswith("assay-"):
            fail(path, f"{component['name']} has no checksum")
    if len({component["bom-ref"] for component in components}) != len(components) or len(components) < 100:
        fail(path, f"{len(components)} crates, or some twice")
    return len(components)


def main():
    deploy = pathlib.Path("deploy")
    objects = sum(check_kubernetes(path) for path in sorted((deploy / "kubernetes").glob("*.yaml")))
    jobs = sum(check_nomad(path) for path in sorted((deploy / "nomad").glob("*.hcl")))
    if not objects or not jobs:
        fail(deploy, "nothing to check")
    crates = sum(check_bill(path) for path in pathlib.Path(sys.argv[1]).glob("*.cdx.json"))
    if not crates:
        fail(sys.argv[1], "no bill of materials")
    print(f"{objects} objects of Kubernetes, {jobs} jobs of Nomad, {crates} crates in two bills of materials")


main()
