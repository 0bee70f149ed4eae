"""Gives each node with a miner the condition AssayAttested, as the validator beside it judges that miner.

True: attested. False: not, with the validator's reason. Unknown: the validator has not judged it yet, or no miner of the
node is connected and none was. A node's miner is the one that connects from the address of its pod: neither the miner
nor its host names the node. Conditions are written when they change, and every five minutes.

It reads the validator's API on 127.0.0.1 and talks to the cluster as the service account of its pod. With TAINT each
node whose condition is not True has the taint assay/not-attested of that effect. Standard library only.
"""

import datetime
import ipaddress
import json
import os
import pathlib
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

CONDITION, TAINT_KEY, ADDRESS = "AssayAttested", "assay/not-attested", "assay-address"
ATTESTED, UNDECIDED = {"passing", "suspect"}, {"enrolled"}
HEARTBEAT_S, TIMEOUT_S, MAX_BYTES, MAX_TEXT = 300, 30, 64 << 20, 512
ACCOUNT = pathlib.Path(os.environ.get("ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
VALIDATOR = os.environ.get("VALIDATOR", "http://127.0.0.1:7480")
MERGE, STRATEGIC_MERGE = "application/merge-patch+json", "application/strategic-merge-patch+json"


def call(url, document=None, kind=MERGE, headers=None, context=None):
    """The document that a GET answers with, or a PATCH where there is one to send."""
    headers = {**(headers or {}), **({"Content-Type": kind} if document is not None else {})}
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(url, body, headers, method="GET" if document is None else "PATCH")
    # Both are near: a proxy for what is far away reaches neither.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read(MAX_BYTES))


class Cluster:
    """The API of the cluster, as this pod's account."""

    def __init__(self):
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self.base = os.environ.get("CLUSTER") or f"https://{f'[{host}]' if ':' in host else host}:{port}"
        is_tls = self.base.startswith("https:")
        self.context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")) if is_tls else None

    def call(self, path, document=None, kind=MERGE):
        # The token is renewed on disk.
        headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}"}
        return call(self.base + path, document, kind, headers, self.context)

    def items(self, path, **query):
        """All items of a list, page by page."""
        while True:
            page = self.call(f"{path}?{urllib.parse.urlencode({'limit': 200, **query})}")
            yield from page["items"]
            query["continue"] = page["metadata"].get("continue")
            if not query["continue"]:
                return


def connected_miners():
    """The miners that are connected to the validator, by the address that they connect from."""
    found, cursor = {}, None
    while True:
        query = {"connected": "true", "limit": 1000, **({"cursor": cursor} if cursor else {})}
        page = call(f"{VALIDATOR}/api/v1/miners?{urllib.parse.urlencode(query)}")
        for miner in page["items"]:
            found.setdefault(plain_address(miner["address"]), []).append(miner)
        cursor = page["next"]
        if not cursor:
            return found


def plain_address(text):
    """An address in one form: an IPv4 address may come as one of IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def judge(miner):
    """Status, reason and message of the condition."""
    state, name = miner["state"], miner["id"][:8]
    status = "True" if state in ATTESTED else "Unknown" if state in UNDECIDED else "False"
    gap = miner.get("reason") or {}
    why = gap.get("why") or "attested"
    said = f"miner {name}: {why}"
    return status, state.capitalize(), "".join(sign for sign in said if sign.isprintable())[:MAX_TEXT]


class Nodes:
    """The nodes with miners, and the conditions written last."""

    def __init__(self, cluster, namespace, pods, taint):
        self.cluster, self.namespace, self.pods, self.taint = cluster, namespace, pods, taint
        self.miners, self.written, self.address = {}, {}, None
        # Those of an earlier run: the pod of one may be gone.
        nodes = cluster.items("/api/v1/nodes")
        self.seen = {node["metadata"]["name"] for node in nodes if condition_of(node)}

    def publish_address(self):
        """Tells the miners the validator's address and key."""
        target = call(f"{VALIDATOR}/api/v1/status")["target"]
        if target != self.address:
            path = f"/api/v1/namespaces/{self.namespace}/configmaps/{ADDRESS}"
            self.cluster.call(path, {"data": {"validator": target}})
            self.address = target
            print(f"the validator is {target}")

    def look(self):
        """Looks at all nodes once, and gives the number of those that could not be written."""
        self.publish_address()
        connected = connected_miners()
        pods = self.cluster.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=self.pods)
        addresses = {}
        for pod in pods:
            if pod["spec"].get("nodeName"):
                found = addresses.setdefault(pod["spec"]["nodeName"], set())
                found |= {plain_address(ip["ip"]) for ip in pod["status"].get("podIPs") or []}
        self.seen |= addresses.keys()
        failed = 0
        for node in sorted(self.seen):
            try:
                if node in addresses:
                    judged = self.judge(node, [miner for ip in addresses[node] for miner in connected.get(ip, [])])
                else:
                    judged = "Unknown", "NoMiner", "no pod of a miner is on this node"
                self.write(node, *judged, has_pod=node in addresses)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    # The node is gone.
                    self.seen.discard(node)
                    continue
                failed += 1
                print(f"node {node}: {error}: {error.read(MAX_TEXT).decode(errors='replace')}", file=sys.stderr)
        return failed

    def judge(self, node, miners):
        """The condition of a node by its connected miners, or by the one that was connected last."""
        if miners:
            # Of several keys that one pod connects with, the worst counts.
            judged = {miner["id"]: judge(miner) for miner in miners}
            worst = min(judged, key=lambda id: (["False", "Unknown", "True"].index(judged[id][0]), id))
            self.miners[node] = worst
            return judged[worst]
        if node in self.miners:
            miner = call(f"{VALIDATOR}/api/v1/miners/{self.miners[node]}")
            # It may come back until its attestation ends. Connected elsewhere it is another node's.
            if not miner["connected_to"]:
                return judge(miner)
            del self.miners[node]
        return "Unknown", "NotConnected", "no miner of this node has connected to the validator"

    def write(self, name, status, reason, message, has_pod):
        """Writes a condition that is new, or was written some time ago."""
        written = self.written.get(name)
        if written and written[:2] == (status, reason) and time.monotonic() - written[2] < HEARTBEAT_S:
            return
        node = self.cluster.call(f"/api/v1/nodes/{name}")
        before = condition_of(node)
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        changed = now if before.get("status") != status else before.get("lastTransitionTime", now)
        condition = {
            "type": CONDITION,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": changed,
        }
        node = self.cluster.call(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}}, STRATEGIC_MERGE)
        if (before.get("status"), before.get("reason")) != (status, reason):
            print(f"node {name}: {status}, {message}")
        # A node without a pod keeps what it has: whether it is to have one, the DaemonSet says.
        if self.taint and has_pod:
            self.set_taint(node, is_wanted=status != "True")
        self.written[name] = status, reason, time.monotonic()

    def set_taint(self, node, is_wanted):
        """Sets or removes the taint; refused, until the next look, where the node changed meanwhile."""
        taints = node["spec"].get("taints") or []
        wanted = [taint for taint in taints if taint["key"] != TAINT_KEY]
        if is_wanted:
            wanted.append({"key": TAINT_KEY, "effect": self.taint})
        if [(taint["key"], taint["effect"]) for taint in taints] != [(taint["key"], taint["effect"]) for taint in wanted]:
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            self.cluster.call(f"/api/v1/nodes/{node['metadata']['name']}", {"metadata": metadata, "spec": {"taints": wanted}})


def condition_of(node):
    """The condition that a node has; empty without one."""
    conditions = node["status"].get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == CONDITION), {})


def main():
    nodes, interval = None, float(os.environ["INTERVAL_S"])
    while True:
        try:
            nodes = nodes or Nodes(Cluster(), os.environ["NAMESPACE"], os.environ["PODS"], os.environ["TAINT"])
            if nodes.look() == 0:
                (pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / "looked").touch()
        except (OSError, ValueError, KeyError) as error:
            # The validator or the cluster does not answer now: conditions stay, and their heartbeat says since when.
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        time.sleep(interval)


if __name__ == "__main__":
    main()
