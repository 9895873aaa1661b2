# mypy: ignore-errors
from rescheduler.kube.codecs import api_pb2 as _api_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OwnPods(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[OwnPod]
    def __init__(self, items: _Optional[_Iterable[_Union[OwnPod, _Mapping]]] = ...) -> None: ...

class SharedPods(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SharedPod]
    def __init__(self, items: _Optional[_Iterable[_Union[SharedPod, _Mapping]]] = ...) -> None: ...

class OwnPod(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: OwnMeta
    spec: OwnSpec
    status: OwnTimes
    def __init__(self, metadata: _Optional[_Union[OwnMeta, _Mapping]] = ..., spec: _Optional[_Union[OwnSpec, _Mapping]] = ..., status: _Optional[_Union[OwnTimes, _Mapping]] = ...) -> None: ...

class SharedPod(_message.Message):
    __slots__ = ("metadata", "spec", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: SharedMeta
    spec: SharedSpec
    status: SharedStatus
    def __init__(self, metadata: _Optional[_Union[SharedMeta, _Mapping]] = ..., spec: _Optional[_Union[SharedSpec, _Mapping]] = ..., status: _Optional[_Union[SharedStatus, _Mapping]] = ...) -> None: ...

class OwnMeta(_message.Message):
    __slots__ = ("name", "uid", "resourceVersion", "creationTimestamp")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCEVERSION_FIELD_NUMBER: _ClassVar[int]
    CREATIONTIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    name: str
    uid: str
    resourceVersion: str
    creationTimestamp: _api_pb2.Time
    def __init__(self, name: _Optional[str] = ..., uid: _Optional[str] = ..., resourceVersion: _Optional[str] = ..., creationTimestamp: _Optional[_Union[_api_pb2.Time, _Mapping]] = ...) -> None: ...

class SharedMeta(_message.Message):
    __slots__ = ("namespace", "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELETIONTIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DELETIONGRACEPERIODSECONDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    OWNERREFERENCES_FIELD_NUMBER: _ClassVar[int]
    FINALIZERS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    deletionTimestamp: bytes
    deletionGracePeriodSeconds: int
    labels: _containers.RepeatedScalarFieldContainer[bytes]
    annotations: _containers.RepeatedCompositeFieldContainer[SharedAnnotation]
    ownerReferences: _containers.RepeatedScalarFieldContainer[bytes]
    finalizers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, namespace: _Optional[str] = ..., deletionTimestamp: _Optional[bytes] = ..., deletionGracePeriodSeconds: _Optional[int] = ..., labels: _Optional[_Iterable[bytes]] = ..., annotations: _Optional[_Iterable[_Union[SharedAnnotation, _Mapping]]] = ..., ownerReferences: _Optional[_Iterable[bytes]] = ..., finalizers: _Optional[_Iterable[str]] = ...) -> None: ...

class SharedAnnotation(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class StringEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class OwnSpec(_message.Message):
    __slots__ = ("nodeName", "affinity")
    NODENAME_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    nodeName: str
    affinity: bytes
    def __init__(self, nodeName: _Optional[str] = ..., affinity: _Optional[bytes] = ...) -> None: ...

class SharedSpec(_message.Message):
    __slots__ = ("volumes", "containers", "restartPolicy", "terminationGracePeriodSeconds", "nodeSelector", "hostNetwork", "hostPID", "hostIPC", "securityContext", "schedulerName", "initContainers", "tolerations", "priorityClassName", "priority", "readinessGates", "preemptionPolicy", "overhead", "topologySpreadConstraints", "hostUsers", "schedulingGates", "resourceClaims", "resources", "schedulingGroup")
    VOLUMES_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    RESTARTPOLICY_FIELD_NUMBER: _ClassVar[int]
    TERMINATIONGRACEPERIODSECONDS_FIELD_NUMBER: _ClassVar[int]
    NODESELECTOR_FIELD_NUMBER: _ClassVar[int]
    HOSTNETWORK_FIELD_NUMBER: _ClassVar[int]
    HOSTPID_FIELD_NUMBER: _ClassVar[int]
    HOSTIPC_FIELD_NUMBER: _ClassVar[int]
    SECURITYCONTEXT_FIELD_NUMBER: _ClassVar[int]
    SCHEDULERNAME_FIELD_NUMBER: _ClassVar[int]
    INITCONTAINERS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITYCLASSNAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    READINESSGATES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONPOLICY_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGYSPREADCONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    HOSTUSERS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULINGGATES_FIELD_NUMBER: _ClassVar[int]
    RESOURCECLAIMS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULINGGROUP_FIELD_NUMBER: _ClassVar[int]
    volumes: _containers.RepeatedCompositeFieldContainer[SharedVolume]
    containers: _containers.RepeatedCompositeFieldContainer[SharedContainer]
    restartPolicy: str
    terminationGracePeriodSeconds: int
    nodeSelector: _containers.RepeatedScalarFieldContainer[bytes]
    hostNetwork: bool
    hostPID: bool
    hostIPC: bool
    securityContext: bytes
    schedulerName: str
    initContainers: _containers.RepeatedCompositeFieldContainer[SharedContainer]
    tolerations: _containers.RepeatedScalarFieldContainer[bytes]
    priorityClassName: str
    priority: int
    readinessGates: _containers.RepeatedScalarFieldContainer[bytes]
    preemptionPolicy: str
    overhead: _containers.RepeatedScalarFieldContainer[bytes]
    topologySpreadConstraints: _containers.RepeatedScalarFieldContainer[bytes]
    hostUsers: bool
    schedulingGates: _containers.RepeatedScalarFieldContainer[bytes]
    resourceClaims: _containers.RepeatedScalarFieldContainer[bytes]
    resources: bytes
    schedulingGroup: bytes
    def __init__(self, volumes: _Optional[_Iterable[_Union[SharedVolume, _Mapping]]] = ..., containers: _Optional[_Iterable[_Union[SharedContainer, _Mapping]]] = ..., restartPolicy: _Optional[str] = ..., terminationGracePeriodSeconds: _Optional[int] = ..., nodeSelector: _Optional[_Iterable[bytes]] = ..., hostNetwork: _Optional[bool] = ..., hostPID: _Optional[bool] = ..., hostIPC: _Optional[bool] = ..., securityContext: _Optional[bytes] = ..., schedulerName: _Optional[str] = ..., initContainers: _Optional[_Iterable[_Union[SharedContainer, _Mapping]]] = ..., tolerations: _Optional[_Iterable[bytes]] = ..., priorityClassName: _Optional[str] = ..., priority: _Optional[int] = ..., readinessGates: _Optional[_Iterable[bytes]] = ..., preemptionPolicy: _Optional[str] = ..., overhead: _Optional[_Iterable[bytes]] = ..., topologySpreadConstraints: _Optional[_Iterable[bytes]] = ..., hostUsers: _Optional[bool] = ..., schedulingGates: _Optional[_Iterable[bytes]] = ..., resourceClaims: _Optional[_Iterable[bytes]] = ..., resources: _Optional[bytes] = ..., schedulingGroup: _Optional[bytes] = ...) -> None: ...

class SharedContainer(_message.Message):
    __slots__ = ("name", "image", "ports", "resources", "lifecycle", "securityContext", "restartPolicy", "restartPolicyRules")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    SECURITYCONTEXT_FIELD_NUMBER: _ClassVar[int]
    RESTARTPOLICY_FIELD_NUMBER: _ClassVar[int]
    RESTARTPOLICYRULES_FIELD_NUMBER: _ClassVar[int]
    name: str
    image: str
    ports: _containers.RepeatedScalarFieldContainer[bytes]
    resources: bytes
    lifecycle: bytes
    securityContext: bytes
    restartPolicy: str
    restartPolicyRules: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, name: _Optional[str] = ..., image: _Optional[str] = ..., ports: _Optional[_Iterable[bytes]] = ..., resources: _Optional[bytes] = ..., lifecycle: _Optional[bytes] = ..., securityContext: _Optional[bytes] = ..., restartPolicy: _Optional[str] = ..., restartPolicyRules: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SharedVolume(_message.Message):
    __slots__ = ("volumeSource",)
    VOLUMESOURCE_FIELD_NUMBER: _ClassVar[int]
    volumeSource: bytes
    def __init__(self, volumeSource: _Optional[bytes] = ...) -> None: ...

class SharedStatus(_message.Message):
    __slots__ = ("phase", "conditions", "reason", "containerStatuses", "initContainerStatuses", "nominatedNodeName", "resize", "allocatedResources", "resources")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTAINERSTATUSES_FIELD_NUMBER: _ClassVar[int]
    INITCONTAINERSTATUSES_FIELD_NUMBER: _ClassVar[int]
    NOMINATEDNODENAME_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATEDRESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    phase: str
    conditions: _containers.RepeatedCompositeFieldContainer[SharedCondition]
    reason: str
    containerStatuses: _containers.RepeatedCompositeFieldContainer[SharedContainerStatus]
    initContainerStatuses: _containers.RepeatedCompositeFieldContainer[SharedContainerStatus]
    nominatedNodeName: str
    resize: str
    allocatedResources: _containers.RepeatedScalarFieldContainer[bytes]
    resources: bytes
    def __init__(self, phase: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[SharedCondition, _Mapping]]] = ..., reason: _Optional[str] = ..., containerStatuses: _Optional[_Iterable[_Union[SharedContainerStatus, _Mapping]]] = ..., initContainerStatuses: _Optional[_Iterable[_Union[SharedContainerStatus, _Mapping]]] = ..., nominatedNodeName: _Optional[str] = ..., resize: _Optional[str] = ..., allocatedResources: _Optional[_Iterable[bytes]] = ..., resources: _Optional[bytes] = ...) -> None: ...

class SharedCondition(_message.Message):
    __slots__ = ("type", "status", "reason", "message")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    type: str
    status: str
    reason: str
    message: str
    def __init__(self, type: _Optional[str] = ..., status: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class SharedContainerStatus(_message.Message):
    __slots__ = ("name", "state", "lastState", "ready", "restartCount", "started", "allocatedResources", "resources")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LASTSTATE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    RESTARTCOUNT_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATEDRESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: SharedState
    lastState: SharedState
    ready: bool
    restartCount: int
    started: bool
    allocatedResources: _containers.RepeatedScalarFieldContainer[bytes]
    resources: bytes
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[SharedState, _Mapping]] = ..., lastState: _Optional[_Union[SharedState, _Mapping]] = ..., ready: _Optional[bool] = ..., restartCount: _Optional[int] = ..., started: _Optional[bool] = ..., allocatedResources: _Optional[_Iterable[bytes]] = ..., resources: _Optional[bytes] = ...) -> None: ...

class SharedState(_message.Message):
    __slots__ = ("waiting", "running", "terminated")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    waiting: bytes
    running: SharedRunning
    terminated: SharedTerminated
    def __init__(self, waiting: _Optional[bytes] = ..., running: _Optional[_Union[SharedRunning, _Mapping]] = ..., terminated: _Optional[_Union[SharedTerminated, _Mapping]] = ...) -> None: ...

class SharedRunning(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SharedTerminated(_message.Message):
    __slots__ = ("exitCode", "signal", "reason")
    EXITCODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    exitCode: int
    signal: int
    reason: str
    def __init__(self, exitCode: _Optional[int] = ..., signal: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class OwnTimes(_message.Message):
    __slots__ = ("conditions", "startTime", "containerStatuses", "initContainerStatuses")
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    STARTTIME_FIELD_NUMBER: _ClassVar[int]
    CONTAINERSTATUSES_FIELD_NUMBER: _ClassVar[int]
    INITCONTAINERSTATUSES_FIELD_NUMBER: _ClassVar[int]
    conditions: _containers.RepeatedCompositeFieldContainer[OwnConditionTime]
    startTime: _api_pb2.Time
    containerStatuses: _containers.RepeatedCompositeFieldContainer[OwnContainerTimes]
    initContainerStatuses: _containers.RepeatedCompositeFieldContainer[OwnContainerTimes]
    def __init__(self, conditions: _Optional[_Iterable[_Union[OwnConditionTime, _Mapping]]] = ..., startTime: _Optional[_Union[_api_pb2.Time, _Mapping]] = ..., containerStatuses: _Optional[_Iterable[_Union[OwnContainerTimes, _Mapping]]] = ..., initContainerStatuses: _Optional[_Iterable[_Union[OwnContainerTimes, _Mapping]]] = ...) -> None: ...

class OwnConditionTime(_message.Message):
    __slots__ = ("lastTransitionTime",)
    LASTTRANSITIONTIME_FIELD_NUMBER: _ClassVar[int]
    lastTransitionTime: _api_pb2.Time
    def __init__(self, lastTransitionTime: _Optional[_Union[_api_pb2.Time, _Mapping]] = ...) -> None: ...

class OwnContainerTimes(_message.Message):
    __slots__ = ("state", "lastState")
    STATE_FIELD_NUMBER: _ClassVar[int]
    LASTSTATE_FIELD_NUMBER: _ClassVar[int]
    state: OwnStateTimes
    lastState: OwnStateTimes
    def __init__(self, state: _Optional[_Union[OwnStateTimes, _Mapping]] = ..., lastState: _Optional[_Union[OwnStateTimes, _Mapping]] = ...) -> None: ...

class OwnStateTimes(_message.Message):
    __slots__ = ("terminated",)
    TERMINATED_FIELD_NUMBER: _ClassVar[int]
    terminated: OwnTerminatedTimes
    def __init__(self, terminated: _Optional[_Union[OwnTerminatedTimes, _Mapping]] = ...) -> None: ...

class OwnTerminatedTimes(_message.Message):
    __slots__ = ("startedAt", "finishedAt")
    STARTEDAT_FIELD_NUMBER: _ClassVar[int]
    FINISHEDAT_FIELD_NUMBER: _ClassVar[int]
    startedAt: _api_pb2.Time
    finishedAt: _api_pb2.Time
    def __init__(self, startedAt: _Optional[_Union[_api_pb2.Time, _Mapping]] = ..., finishedAt: _Optional[_Union[_api_pb2.Time, _Mapping]] = ...) -> None: ...
