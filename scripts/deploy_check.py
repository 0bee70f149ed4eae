"""Holds the rendered charts, the jobs of Nomad, alerts and dashboards, and the bills of materials, against what these
systems take; see scripts/check-deploy.
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
KUBERNETES = "1.32"
UNPRIVILEGED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}


def fail(path, what):
    sys.exit(f"error: {path}: {what}")


def containers(document):
    """The containers of an object, those that only prepare it included."""
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def check_kubernetes(path):
    """Each object fits its schema; each container is unprivileged, with a read-only root."""
    documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
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


def check_examples(folder):
    """The rule waits for the condition that the chart gives, and the rules of the plugin set the conditions it has."""
    path = folder / "examples/node-readiness-rule.yaml"
    rule = yaml.safe_load(path.read_text())["spec"]
    for condition in rule["conditions"]:
        if f'"{condition["type"]}"' not in (folder / "files/node_conditions.py").read_text():
            fail(path, f"nothing gives the condition {condition['type']}")
    if not rule["taint"]["key"].startswith("readiness.k8s.io/"):
        fail(path, f"the controller takes no taint {rule['taint']['key']}")
    path = folder / "examples/node-problem-detector.json"
    plugin = json.loads(path.read_text())
    given = {condition["type"] for condition in plugin["conditions"]}
    for each in plugin["rules"]:
        limit, args = int(each["timeout"].rstrip("s")), each["args"]
        if each["condition"] not in given or int(args[args.index("--timeout") + 1].rstrip("s")) >= limit:
            fail(path, f"the rule for {each['condition']} has no such condition, or ends before its command")


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


def check_alerts(rules, tests):
    """Each alert says how grave it is, what is wrong and what to do, and is in a test."""
    tested = tests.read_text()
    alerts = [rule for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]]
    for alert in alerts:
        name = alert["alert"]
        if not alert.get("labels", {}).get("severity") or not {"summary", "remedy"} <= alert.get("annotations", {}).keys():
            fail(rules, f"{name} lacks a severity, a summary or a remedy")
        if name not in tested:
            fail(tests, f"{name} is not tested")
    return len(alerts)


def check_dashboard(path):
    """A dashboard has panels with places of their own that ask something; gives what they ask."""
    panels = [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]
    if len({panel["id"] for panel in panels}) != len(panels) or not panels:
        fail(path, "no panels, or two with one id")
    asked = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]
    silent = {panel["title"] for panel in panels} - {title for title, _ in asked}
    if silent:
        fail(path, f"{silent} ask nothing")
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        if cells & taken or max(x for x, _ in cells) >= 24:
            fail(path, f"{panel['title']} lies over another panel, or beyond the edge")
        taken |= cells
    return [expression for _, expression in asked]


def as_rules(expressions):
    """Recording rules with what dashboards ask, where Grafana's variables have values."""
    values = {"$__rate_interval": "5m", "$validator": ".+", "$miner": ".+"}
    rules = []
    for number, expression in enumerate(expressions):
        for variable, value in values.items():
            expression = expression.replace(variable, value)
        rules.append({"record": f"dashboard:{number}", "expr": expression})
    return yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]})


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
    charts = sorted((pathlib.Path(sys.argv[1]) / "charts").glob("*.yaml"))
    objects = sum(check_kubernetes(path) for path in charts)
    check_examples(deploy / "kubernetes")
    jobs = sum(check_nomad(path) for path in sorted((deploy / "nomad").glob("*.hcl")))
    if not objects or not jobs:
        fail(deploy, "nothing to check")
    alerts = check_alerts(deploy / "prometheus/assay.rules.yml", deploy / "prometheus/assay.rules.test.yml")
    asked = [asks for path in sorted((deploy / "grafana").glob("*.json")) for asks in check_dashboard(path)]
    if not alerts or not asked:
        fail(deploy, "no alerts or no dashboards to check")
    # For promtool.
    (pathlib.Path(sys.argv[1]) / "dashboards.rules.yml").write_text(as_rules(asked))
    crates = sum(check_bill(path) for path in pathlib.Path(sys.argv[1]).glob("*.cdx.json"))
    if not crates:
        fail(sys.argv[1], "no bill of materials")
    print(
        f"{objects} objects of {len(charts)} charts, {jobs} jobs of Nomad, {alerts} alerts, {len(asked)} questions of dashboards, "
        f"{crates} crates in two bills of materials"
    )


main()
