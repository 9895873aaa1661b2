"""Random pods and nodes as JSON of the API server: all fields that are read, and some that are not."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from bench.protobuf_writer import Schema, schema_from

ROOT = Path(__file__).parents[4]
WIRE = ROOT / "src" / "rescheduler" / "kube" / "codecs"
SCHEMA: Schema = schema_from(
    WIRE / "api.proto",
    ROOT / "bench" / "unread.proto",
)

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

words = st.sampled_from(
    ["a", "web-1", "zone", "Ünïcode", "x" * 200, "kube-api-access-abcde", "node.k8s.io/x"]
)
small = st.integers(0, 2**31 - 1)
quantities = st.sampled_from(["0", "100m", "1", "1.5", "2Gi", "64Mi", "100u", "1e3", "12E", "0.1"])
resource_names = st.sampled_from(
    ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "pods", "storage"]
)
times = st.integers(0, 4_000_000_000).map(
    lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
)
amounts = st.dictionaries(resource_names, quantities, max_size=3)


def lists(parts: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(parts, max_size=most)


def maps(most: int = 3) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(words, words, max_size=most)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Any of the fields may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


requirement = objects(
    key=words, operator=st.sampled_from(["In", "NotIn", "Exists", "Gt"]), values=lists(words)
)
selector = objects(matchLabels=maps(), matchExpressions=lists(requirement))
node_term = objects(matchExpressions=lists(requirement), matchFields=lists(requirement))
pod_term = objects(
    labelSelector=selector,
    namespaces=lists(words),
    topologyKey=words,
    namespaceSelector=selector,
    matchLabelKeys=lists(words),
    mismatchLabelKeys=lists(words),
)
pod_affinity = objects(
    **{REQUIRED: lists(pod_term), PREFERRED: lists(objects(weight=small, podAffinityTerm=pod_term))}
)
node_affinity = objects(
    **{
        REQUIRED: objects(nodeSelectorTerms=lists(node_term)),
        PREFERRED: lists(objects(weight=small, preference=node_term)),
    }
)
affinity = objects(nodeAffinity=node_affinity, podAffinity=pod_affinity, podAntiAffinity=pod_affinity)
toleration = objects(key=words, operator=words, value=words, effect=words, tolerationSeconds=small)
spread = objects(
    maxSkew=st.integers(1, 9),
    topologyKey=words,
    whenUnsatisfiable=words,
    labelSelector=selector,
    minDomains=small,
    nodeAffinityPolicy=words,
    nodeTaintsPolicy=words,
    matchLabelKeys=lists(words),
)
claim = objects(claimName=words, readOnly=st.booleans())
disks = {
    "gcePersistentDisk": objects(pdName=words, readOnly=st.booleans()),
    "awsElasticBlockStore": objects(volumeID=words, readOnly=st.booleans()),
    "azureDisk": objects(diskName=words, readOnly=st.booleans()),
    "cinder": objects(volumeID=words, readOnly=st.booleans()),
    "portworxVolume": objects(volumeID=words, readOnly=st.booleans()),
    "vsphereVolume": objects(volumePath=words),
    "persistentVolumeClaim": claim,
    "hostPath": objects(path=words),
    "emptyDir": objects(medium=words),
    "csi": objects(driver=words, readOnly=st.booleans()),
    "iscsi": objects(iqn=words, readOnly=st.booleans()),
    "rbd": objects(monitors=lists(words), image=words, pool=words, readOnly=st.booleans()),
    "secret": objects(secretName=words),
}
bare = ["ephemeral", "nfs", "glusterfs", "fc", "flexVolume", "azureFile", "storageos", "projected", "image"]
volume_source = st.one_of(
    *(detail.map(lambda detail, kind=kind: {kind: detail}) for kind, detail in disks.items()),
    st.sampled_from(bare).map(lambda kind: {kind: {}}),
)
volume = st.builds(lambda name, source: {"name": name, **source}, words, volume_source)
resources = objects(requests=amounts, limits=amounts)
windows_options = objects(hostProcess=st.booleans(), runAsUserName=words)
security_context = objects(
    capabilities=objects(add=lists(st.sampled_from(["CHOWN", "SYS_ADMIN"])), drop=lists(words)),
    privileged=st.booleans(),
    procMount=st.sampled_from(["", "Default", "Unmasked"]),
    windowsOptions=windows_options,
    runAsUser=small,
)
container = st.fixed_dictionaries(
    {"name": words},
    optional={
        "image": words,
        "resources": resources,
        "ports": lists(
            objects(hostPort=small, containerPort=small, protocol=words, hostIP=words, name=words)
        ),
        "securityContext": security_context,
        "restartPolicy": st.sampled_from(["Always", "Never"]),
        "restartPolicyRules": lists(objects(action=st.sampled_from(["Restart", "RestartAllContainers"]))),
        "env": lists(objects(name=words, value=words)),
        "volumeMounts": lists(objects(name=words, mountPath=words)),
    },
)
state = st.one_of(
    st.just({}),
    st.builds(lambda detail: {"running": detail}, objects(startedAt=times)),
    st.builds(lambda detail: {"waiting": detail}, objects(reason=words, message=words)),
    st.builds(
        lambda detail: {"terminated": detail},
        objects(
            exitCode=st.integers(-1, 255),
            signal=small,
            reason=words,
            startedAt=times,
            finishedAt=times,
            containerID=words,
        ),
    ),
)
container_status = st.fixed_dictionaries(
    {"name": words},
    optional={
        "ready": st.booleans(),
        "started": st.booleans(),
        "restartCount": small,
        "state": state,
        "lastState": state,
        "allocatedResources": amounts,
        "resources": resources,
        "containerID": words,
    },
)
condition = objects(
    type=st.sampled_from(["Ready", "PodScheduled", "Initialized", "PodResizePending", "example.com/gate"]),
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["", "Infeasible", "Deferred", "Unschedulable"]),
    message=words,
    lastTransitionTime=times,
    observedGeneration=small,
)
marks = st.dictionaries(
    st.sampled_from(
        [
            "rescheduler.dev/handover",
            "karpenter.sh/do-not-disrupt",
            "scheduling-retries",
            "other",
            "kse.com/deploy",
        ]
    ),
    words,
    max_size=3,
)
owner = objects(apiVersion=words, kind=words, name=words, uid=words, controller=st.booleans())
metadata = objects(
    name=words,
    namespace=words,
    uid=words,
    resourceVersion=st.integers(0, 10**9).map(str),
    creationTimestamp=times,
    deletionTimestamp=times,
    deletionGracePeriodSeconds=small,
    labels=maps(),
    annotations=marks,
    ownerReferences=lists(owner),
    finalizers=lists(words),
    generation=small,
)
pod_spec = objects(
    volumes=lists(volume, 3),
    containers=lists(container, 3),
    initContainers=lists(container, 3),
    restartPolicy=words,
    terminationGracePeriodSeconds=small,
    nodeSelector=maps(),
    nodeName=words,
    hostNetwork=st.booleans(),
    hostPID=st.booleans(),
    hostIPC=st.booleans(),
    securityContext=objects(windowsOptions=windows_options, fsGroup=small),
    affinity=affinity,
    schedulerName=words,
    tolerations=lists(toleration),
    priorityClassName=words,
    priority=st.integers(-(2**31), 2**31 - 1),
    readinessGates=lists(objects(conditionType=words)),
    overhead=amounts,
    topologySpreadConstraints=lists(spread),
    hostUsers=st.booleans(),
    schedulingGates=lists(objects(name=words)),
    resourceClaims=lists(objects(name=words, resourceClaimName=words)),
    resources=resources,
    schedulingGroup=objects(podGroupName=words),
    serviceAccountName=words,
)
pod_status = objects(
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    reason=words,
    conditions=lists(condition, 4),
    containerStatuses=lists(container_status, 3),
    initContainerStatuses=lists(container_status, 2),
    startTime=times,
    nominatedNodeName=words,
    resize=words,
    allocatedResources=amounts,
    resources=resources,
    podIP=words,
)
pods = objects(metadata=metadata, spec=pod_spec, status=pod_status)

node_condition = objects(
    type=words, status=words, reason=words, message=words, lastTransitionTime=times, lastHeartbeatTime=times
)
nodes = objects(
    metadata=metadata,
    spec=objects(
        providerID=words,
        unschedulable=st.booleans(),
        taints=lists(objects(key=words, value=words, effect=words, timeAdded=times)),
    ),
    status=objects(
        capacity=amounts,
        allocatable=amounts,
        conditions=lists(node_condition),
        volumesInUse=lists(words),
        volumesAttached=lists(objects(name=words)),
        declaredFeatures=lists(words),
    ),
)
