"""The filter rules of the default scheduler (v1.37), which decide whether a pod may run on a node.

All rules are pure; `placement.Placement` applies them, in the scheduler's order:

| rule                 | condition                                                    | module             |
|----------------------|--------------------------------------------------------------|--------------------|
| NodeUnschedulable    | the node is not cordoned, or the pod tolerates that          | taint_toleration   |
| TaintToleration      | the pod tolerates NoSchedule and NoExecute taints            | taint_toleration   |
| NodeAffinity         | node selector and required node affinity match               | node_affinity      |
| NodePorts            | the pod's host ports are free                                | node_capacity      |
| NodeResourcesFit     | the requests fit, and the node can run one more pod          | node_capacity      |
| VolumeRestrictions   | disks and claims for a single pod are not in use             | volume_rules       |
| NodeVolumeLimits     | the CSI driver is installed and can attach the volumes       | node_volume_limits |
| VolumeBinding        | bound volumes are reachable, others found or provisioned     | volume_rules       |
| VolumeZone           | the zone labels of the volumes match                         | volume_rules       |
| PodTopologySpread    | spread constraints with DoNotSchedule hold                   | topology_rules     |
| InterPodAffinity     | affinity and anti-affinity hold, in both directions          | topology_rules     |
| NodeDeclaredFeatures | the kubelet declares the features that the pod needs         | static_rules       |
| NodeReady            | not in the scheduler: the node is Ready                      | static_rules       |
| AlreadyHere          | not in the scheduler: the pod is not on the node yet         | placement          |

NodeName never refuses, because a copy names no node. DynamicResources is missing, because pods with
resource claims are never moved.
"""
