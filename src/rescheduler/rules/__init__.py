"""May this pod run on that node? Every rule of the default scheduler (v1.37), pure; `Board` asks them all.

In the scheduler's order, each in a file of its own:

| rule                 | what it asks                                                | file                |
|----------------------|-------------------------------------------------------------|---------------------|
| NodeUnschedulable    | not cordoned, or the pod tolerates that                     | taints              |
| TaintToleration      | NoSchedule and NoExecute taints are tolerated               | taints              |
| NodeAffinity         | node selector and required node affinity                    | node_affinity       |
| NodePorts            | its host ports are free                                     | host_ports          |
| NodeResourcesFit     | requests fit into what is left, and one pod more            | resources           |
| VolumeRestrictions   | disks and claims for one pod at a time                      | volume_restrictions |
| NodeVolumeLimits     | the CSI driver runs there and can attach so many volumes    | volume_limits       |
| VolumeBinding        | bound volumes are in reach, others found or made there     | volume_binding      |
| VolumeZone           | the zone labels of its volumes                              | volume_zone         |
| PodTopologySpread    | spread constraints with DoNotSchedule                       | topology_spread     |
| InterPodAffinity     | affinity and anti-affinity, its own and that of pods there  | pod_affinity        |
| NodeDeclaredFeatures | what the pod needs, the kubelet declares                    | declared_features   |
| NodeReady            | ours: the node is Ready                                     | node_ready          |
| AlreadyHere          | ours: the pod is not there yet                              | board               |

NodeName never refuses: a copy names no node. DynamicResources is not here, because pods with resource claims
are never moved.
"""
