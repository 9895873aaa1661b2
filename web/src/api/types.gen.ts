// Generated from openapi.json by scripts/api-types.mjs.

export interface ActionPreview {
  readonly kind: "apply" | "cancel" | "drain" | "move" | "pause" | "resume" | "undrain";
  readonly summary: string;
  readonly changes: readonly (ObjectChange)[];
  readonly notes: readonly (string)[];
  /** Why the action is not possible; empty if it is. */
  readonly refused: readonly (RefusalView)[];
  /** To be sent back to execute the action; empty if refused. */
  readonly confirmation: string;
  readonly expiresAt: string | null;
}

export interface ActionResult {
  readonly kind: "apply" | "cancel" | "drain" | "move" | "pause" | "resume" | "undrain";
  readonly message: string;
  /** Keys of the migrations that it created. */
  readonly migrations: readonly (string)[];
}

/** Execute the current plan, or that of a what-if. */
export interface ApplyAction {
  readonly kind: "apply";
  readonly code?: string;
  readonly uids?: readonly (string)[] | null;
}

export interface BalancePoint {
  /** Seconds since 1970. */
  readonly at: number;
  readonly resource: string;
  readonly mean: number;
  readonly deviation: number;
  readonly lowest: number;
  readonly highest: number;
}

/** The balance of the cluster over time, since this process started to watch it. */
export interface BalanceView {
  readonly intervalSeconds: number;
  readonly points: readonly (BalancePoint)[];
}

export interface CancelAction {
  readonly kind: "cancel";
  readonly migration: string;
}

/** Cordon or uncordon a node. */
export interface ChangeForm {
  readonly node: string;
  readonly change: NodeChange;
  readonly strategy: string;
  readonly reason: string;
}

export interface ClusterView {
  /** Deltas with a higher number apply to it. */
  readonly revision: number;
  /** Another one means another process: load everything again. */
  readonly epoch: string;
  readonly takenAt: string;
  readonly nodes: NodeGridColumns;
  readonly labelKeys: readonly (LabelKey)[];
  readonly balance: readonly (ResourceBalance)[];
  readonly usageSource: string;
  readonly podCount: number;
  readonly namespaceCount: number;
  /** How old the oldest cache is. */
  readonly stalenessSeconds: number;
}

export interface ConfirmRequest {
  readonly confirmation: string;
}

export interface DrainAction {
  readonly kind: "drain";
  readonly node: string;
}

/** Why a request was refused, and what to do about it. */
export interface ErrorView {
  /** For programs: NotFound, Forbidden, InvalidRequest, … */
  readonly reason: string;
  /** For people. */
  readonly message: string;
}

export interface FailingPod {
  readonly pod: string;
  readonly node: string;
  readonly why: string;
  readonly tries: number;
  readonly allowed: number;
  readonly message: string;
}

/** Why no move starts. Moves in progress continue. */
export interface Halt {
  readonly reason: HaltReason;
  readonly since: string;
  readonly words: string;
  readonly ends: string;
  readonly namespace: string;
}

export type HaltReason = "ApiFailing" | "CachesStale" | "FailureRatio" | "NamespaceFailing" | "NodesNotReady" | "Paused";

/** How many nodes have which load. Bin i starts at `edges[i]`; the last one is open. */
export interface HistogramView {
  readonly resource: string;
  readonly edges: readonly (number)[];
  readonly before: readonly (number)[];
  readonly after: readonly (number)[];
  readonly meanBefore: number;
  readonly meanAfter: number;
  readonly deviationBefore: number;
  readonly deviationAfter: number;
  readonly lowestBefore: number;
  readonly lowestAfter: number;
  readonly highestBefore: number;
  readonly highestAfter: number;
}

/** The values of one label over all nodes: node i has `values[index[i]]`; -1 where it has none. */
export interface LabelColumn {
  readonly key: string;
  readonly values: readonly (string)[];
  readonly index: readonly (number)[];
}

export interface LabelKey {
  readonly key: string;
  /** Number of distinct values. */
  readonly values: number;
  /** Number of nodes that have it. */
  readonly nodes: number;
}

export interface LabelQuery {
  /** Key of a node label. */
  readonly key: string;
}

export interface LoadForm {
  /** percent of allocatable */
  readonly before: number;
  /** percent of allocatable, after all moves */
  readonly after: number;
}

/** Load in percent of allocatable over time; `at` has seconds since 1970. */
export interface LoadSeries {
  readonly at: readonly (number)[];
  /** By resource. */
  readonly loads: Readonly<Record<string, readonly (number)[]>>;
}

export interface LoginRequest {
  readonly token: string;
}

export interface MigrationDetail {
  readonly migration: MigrationView;
  readonly timeline: readonly (TimelineEntry)[];
  readonly notes: readonly (string)[];
}

export interface MigrationList {
  /** Newest first. */
  readonly migrations: readonly (MigrationView)[];
  /** Number that match the filters. */
  readonly total: number;
  readonly running: number;
  /** Sum over all that match. */
  readonly readySecondsLost: number;
  /** Likewise, of those where it is known. */
  readonly evictionSecondsLost: number;
  readonly strategies: readonly (string)[];
}

export interface MigrationQuery {
  /** running: Pending and InProgress. */
  readonly state?: "all" | "finished" | "running";
  readonly phase?: "" | "Completed" | "Failed" | "InProgress" | "Pending";
  /** Only of this namespace. */
  readonly namespace?: string;
  /** Only from or to this node. */
  readonly node?: string;
  readonly strategy?: string;
  readonly handover?: "" | "Adopt" | "Copy" | "Evict";
  /** Part of the pod's or the migration's name. */
  readonly q?: string;
  /** Key of the last migration of the previous page. */
  readonly before?: string;
  readonly limit?: number;
}

export interface TimelineEntry {
  readonly at: string;
  readonly source: "condition" | "event" | "migration";
  readonly reason: string;
  readonly message: string;
}

export interface MigrationView {
  readonly key: string;
  readonly uid: string;
  readonly namespace: string;
  readonly pod: string;
  readonly from: string;
  readonly to: string;
  readonly strategy: string;
  readonly reason: string;
  readonly handover: string;
  readonly phase: "Completed" | "Failed" | "InProgress" | "Pending";
  readonly step: string;
  /** The usual steps of its handover, in order. */
  readonly steps: readonly (string)[];
  readonly stepSince: string | null;
  /** When it is rolled back if not handed over. */
  readonly deadline: string | null;
  readonly created: string;
  readonly started: string | null;
  readonly handedOver: string | null;
  readonly finished: string | null;
  readonly retryAt: string | null;
  readonly attempts: number;
  readonly newPod: string;
  readonly group: string;
  readonly failure: string;
  readonly message: string;
  readonly isCancelled: boolean;
  /** null until it is completed. */
  readonly readySecondsLost: number | null;
  /** Seconds that a plain eviction would have lost until the new pod was ready. */
  readonly evictionSecondsLost: number | null;
}

/** SSE event `migrations`. */
export interface MigrationsDelta {
  readonly changed: readonly (MigrationView)[];
  readonly removed: readonly (string)[];
}

export interface MoveAction {
  readonly kind: "move";
  readonly pod: string;
  readonly node?: string | null;
}

/** Move one pod to another node. Moves are executed in this order, or wave by wave. */
export interface MoveForm {
  /** namespace/name */
  readonly pod: string;
  /** of the pod; another pod with the same name is not moved */
  readonly uid: string;
  /** the node it is on */
  readonly from: string;
  /** null: chosen when the move is executed */
  readonly to: string | null;
  readonly strategy: string;
  /** Adopt and Copy start the successor first; Evict does not */
  readonly handover: "Adopt" | "Copy" | "Evict";
  /** for people, with numbers */
  readonly reason: string;
  /** relative to what the strategy improves: 0.05 is 5 % */
  readonly gain: number;
  /** moves of one wave may run at the same time; the first wave is 1 */
  readonly wave: number;
  /** pods of one group move together or not at all */
  readonly group: string;
  /** an intermediate stop: a later move with the same uid follows */
  readonly hop: boolean;
  /** pending pods that this move, with others, makes room for */
  readonly rooms: readonly (RoomForm)[];
}

export type NodeChange = "cordon" | "uncordon";

export interface NodeChangeView {
  readonly node: string;
  readonly change: string;
  readonly strategy: string;
  readonly reason: string;
}

export interface NodeConditionView {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly since: string | null;
}

export interface NodeDetail {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly (string)[];
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly inMaintenance: boolean;
  /** Workloads that fail there; empty if not suspect. */
  readonly suspect: readonly (string)[];
  readonly maintenance: NodeInMaintenance | null;
  readonly conditions: readonly (NodeConditionView)[];
  readonly created: string | null;
  readonly allocatable: Readonly<Record<string, number>>;
  readonly requests: Readonly<Record<string, number>>;
  readonly usage: Readonly<Record<string, number>>;
  readonly load: LoadSeries;
  readonly pods: readonly (NodePodView)[];
  /** Pods of namespaces that the viewer may not see. */
  readonly hiddenPods: number;
  readonly couldCome: number;
  readonly allAsked: boolean;
  readonly couldComeExamples: readonly (string)[];
  /** Why no moved pod comes here; empty if some can. */
  readonly takesNone: string;
  /** Why pods keep the node from being emptied. */
  readonly stays: readonly (RefusalGroup)[];
  readonly assumptions: readonly (string)[];
}

/** A node whose pods other clients evict, such as `kubectl drain` or an autoscaler. */
export interface NodeDrainView {
  readonly node: string;
  /** Who evicts, as the latest move says. */
  readonly reason: string;
  /** Moves that are not finished. */
  readonly moving: number;
  readonly moved: number;
  readonly failed: number;
  /** Pods that are still there, without those of DaemonSets. */
  readonly left: number;
  /** When evictions are no longer held. */
  readonly deadline: string | null;
}

/** Show the load of one node before and after the plan. */
export interface NodeForm {
  readonly name: string;
  readonly cpu: LoadForm | null;
  readonly memory: LoadForm | null;
  readonly pods: LoadForm | null;
  /** further resources, by name */
  readonly others: Readonly<Record<string, LoadForm>>;
}

/** All nodes as columns, sorted by name. */
export interface NodeGridColumns {
  readonly names: readonly (string)[];
  readonly resources: readonly (ResourceColumn)[];
  /** Number of pods. */
  readonly pods: readonly (number)[];
  /** Bits: 1 not Ready, 2 cordoned, 4 in maintenance, 8 suspect, 16 in the plan. */
  readonly flags: readonly (number)[];
  readonly zone: LabelColumn;
  readonly pool: LabelColumn;
}

export interface NodeInMaintenance {
  readonly node: string;
  readonly left: number;
  readonly blocked: readonly (string)[];
  readonly message: string;
  readonly terminating: number;
}

export interface NodeLoad {
  readonly node: string;
  readonly percent: number;
}

/** A pod on a node. */
export interface NodePodView {
  readonly pod: string;
  readonly uid: string;
  /** `Deployment/namespace/name`; empty without one. */
  readonly workload: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly priority: number;
  readonly created: string | null;
  readonly requests: Readonly<Record<string, number>>;
  readonly usage: Readonly<Record<string, number>>;
  readonly mayMove: boolean;
  readonly handover: "Adopt" | "Copy" | "Evict" | null;
  /** Number of nodes that could take it. */
  readonly targets: number;
  readonly keptBy: readonly (RefusalView)[];
}

/** SSE event `nodes`: new numbers of some rows of the cluster with the same names. */
export interface NodesDelta {
  readonly revision: number;
  readonly takenAt: string;
  readonly rows: readonly (number)[];
  /** Values of these rows, in their order. */
  readonly resources: readonly (ResourceColumn)[];
  readonly pods: readonly (number)[];
  readonly flags: readonly (number)[];
  readonly balance: readonly (ResourceBalance)[];
}

export interface OutlookForm {
  readonly before: SpreadForm;
  readonly after: SpreadForm;
}

export interface PauseAction {
  readonly kind: "pause";
  readonly why?: string;
}

/** A pod for which the scheduler found no node, and the room that moves make for it (MakeRoom). */
export interface PendingPodView {
  readonly pod: string;
  readonly uid: string;
  readonly since: string | null;
  /** Why no node takes it, in the scheduler's words. */
  readonly message: string;
  /** none: no room is made. planned: moves that have not started make it. making: pods move away, and the node is kept for the pod. kept: they are gone; the scheduler is next. */
  readonly room: "kept" | "making" | "none" | "planned";
  /** Where the room is; empty if there is none. */
  readonly node: string;
  /** Number of moves that make the room. */
  readonly moves: number;
  readonly movesDone: number;
  /** Why no room is made; null if that is not known. */
  readonly refusal: RefusalView | null;
}

export interface PinnedPod {
  readonly pod: string;
  readonly node: string;
}

/** SSE event `plan`: there is a new plan. Load it. */
export interface PlanEvent {
  readonly revision: number;
  readonly moves: number;
}

/** The moves that one check proposes, and the loads that it expects. */
export interface PlanForm {
  readonly apiVersion: "rescheduler.dev/v1alpha1";
  readonly kind: "Plan";
  /** when the cluster was read, in RFC 3339 */
  readonly takenAt: string;
  readonly moves: readonly (MoveForm)[];
  readonly changes: readonly (ChangeForm)[];
  readonly nodes: readonly (NodeForm)[];
  readonly refused: readonly (RefusalForm)[];
  readonly summary: SummaryForm;
}

export interface PlanView {
  readonly revision: number;
  readonly takenAt: string;
  /** check: of the leader; page: made by this process for the page. */
  readonly origin: "check" | "page" | "whatIf";
  /** false in a dry run, during a halt, and on standby. */
  readonly isExecuted: boolean;
  readonly planningSeconds: number;
  readonly usageSource: string;
  readonly moves: readonly (PlannedMoveView)[];
  /** Moves in namespaces that the viewer may not see. */
  readonly hiddenMoves: number;
  readonly changes: readonly (NodeChangeView)[];
  readonly waves: readonly (WaveView)[];
  readonly histograms: readonly (HistogramView)[];
  readonly refused: readonly (RefusalGroup)[];
  readonly assumptions: readonly (string)[];
}

export interface PlannedMoveView {
  readonly pod: string;
  readonly uid: string;
  readonly from: string;
  readonly to: string | null;
  readonly workload: string;
  readonly strategy: string;
  readonly handover: string;
  readonly reason: string;
  readonly gain: number;
  /** The first wave is 1. */
  readonly wave: number;
  readonly group: string;
  readonly hop: boolean;
}

export interface PodList {
  readonly pods: readonly (PodSummary)[];
  /** Number of pods that match. */
  readonly total: number;
}

/** Why a pod may or may not move, and which rule forbids which node. */
export interface PodMatrix {
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
  readonly workload: string;
  readonly mayMove: boolean;
  readonly inWindow: boolean;
  readonly handover: "Adopt" | "Copy" | "Evict" | null;
  /** Why this handover. */
  readonly why: string;
  readonly keptBy: readonly (RefusalView)[];
  readonly keptInMaintenanceBy: readonly (RefusalView)[];
  readonly group: string;
  readonly members: readonly (string)[];
  readonly nodeCount: number;
  readonly columns: readonly (RuleColumn)[];
  readonly rows: readonly (VerdictRow)[];
  /** How the pod fails; empty if it does not. */
  readonly trouble: string;
  readonly tries: number;
  readonly allowedTries: number | null;
  /** The next step for a failing pod. */
  readonly next: string;
  readonly assumptions: readonly (string)[];
}

export interface PodQuery {
  /** Part of `namespace/name`. */
  readonly q?: string;
  /** Only of this namespace. */
  readonly namespace?: string;
  /** Only on this node. */
  readonly node?: string;
  readonly limit?: number;
}

export interface PodSummary {
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
  readonly workload: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly moving: boolean;
}

/** One request to the API server that the action makes. */
export interface ObjectChange {
  readonly verb: "create" | "delete" | "patch";
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** The object or the patch, as it is sent. */
  readonly manifest: Readonly<Record<string, unknown>>;
}

/** A pod or a node that the plan does not change although a strategy asked; or the whole plan. */
export interface RefusalForm {
  readonly pod: string | null;
  readonly node: string | null;
  /** for programs; docs/reasons.md lists the values */
  readonly reason: string;
  /** for people */
  readonly detail: string;
  /** the object that is the cause, if it is not the subject itself */
  readonly by: string;
}

/** All that is refused for one reason. */
export interface RefusalGroup {
  readonly reason: string;
  readonly meaning: string;
  readonly remedy: string;
  readonly count: number;
  readonly examples: readonly (RefusedSubject)[];
}

export interface RefusalView {
  readonly reason: string;
  readonly meaning: string;
  readonly remedy: string;
  readonly detail: string;
  readonly by: string;
}

export interface RefusedSubject {
  readonly subject: string;
  readonly by: string;
  readonly detail: string;
}

/** Loads of one resource over all Ready nodes, in percent of allocatable. */
export interface ResourceBalance {
  readonly resource: string;
  readonly mean: number;
  readonly least: NodeLoad;
  readonly most: NodeLoad;
}

/** One resource of all nodes. `cpu` is in thousandths of a core, others in their base unit. */
export interface ResourceColumn {
  readonly name: string;
  readonly allocatable: readonly (number)[];
  readonly requests: readonly (number)[];
  /** The load that plans use: measured usage, else requests. */
  readonly usage: readonly (number)[];
}

export interface ResumeAction {
  readonly kind: "resume";
}

/** SSE event `resync`: load everything again, because changes are missing or the nodes have changed. */
export interface ResyncEvent {
  readonly why: "missed" | "nodes" | "restarted" | "start";
  readonly epoch: string;
  readonly revision: number;
}

/** Room for a pod that waits to be scheduled. */
export interface RoomForm {
  /** namespace/name */
  readonly pod: string;
  readonly uid: string;
  readonly node: string;
}

/** One column of the matrix. */
export interface RuleColumn {
  /** The scheduler's plugin, or a rule of rescheduler. */
  readonly rule: string;
  /** In the scheduler's words. */
  readonly reason: string;
  /** false: a rule of rescheduler. */
  readonly isSchedulers: boolean;
  /** Number of nodes that it forbids. */
  readonly nodes: number;
}

/** Who the viewer is, what they may see and do, and what this server is. */
export interface SessionView {
  readonly authenticated: boolean;
  readonly mode: "cluster" | "demo" | "file";
  /** link: by the link that the command printed; token: by a bearer token. */
  readonly login: "link" | "token";
  /** No action is offered to any user. */
  readonly readOnly: boolean;
  readonly user: string;
  /** By action: whether the viewer may do it somewhere in the cluster. */
  readonly actions: Readonly<Record<string, boolean>>;
  readonly seesNodes: boolean;
  readonly seesAllNamespaces: boolean;
  /** Namespaces that the viewer sees, unless all. */
  readonly namespaces: readonly (string)[];
  /** To be sent as the header X-Rescheduler-CSRF. */
  readonly csrfToken: string;
  readonly clusterName: string;
  readonly version: string;
  /** The process that answers. */
  readonly replica: string;
  readonly isLeader: boolean;
}

export interface SimilarNodes {
  readonly like: string;
  readonly count?: number;
}

/** Distribution over all nodes, in percent of allocatable. */
export interface SpreadForm {
  readonly mean: number;
  /** standard deviation */
  readonly deviation: number;
  readonly lowest: number;
  readonly highest: number;
}

/** The status of rescheduler and of the cluster; also the SSE event `status`. */
export interface StatusView {
  readonly at: string;
  readonly leader: string;
  /** Whether this process is the leader. */
  readonly leads: boolean;
  readonly paused: boolean;
  readonly pausedBy: string;
  readonly pausedWhy: string;
  readonly dryRun: boolean;
  readonly strategies: readonly (string)[];
  /** cpu, memory, imbalance: percent. */
  readonly thresholds: Readonly<Record<string, number>>;
  readonly maxMoves: number;
  readonly lastCheck: string | null;
  readonly nextCheck: string | null;
  readonly plannedMoves: number;
  readonly runningMigrations: number;
  readonly nodes: number;
  readonly nodesNotReady: number;
  readonly halts: readonly (Halt)[];
  readonly failing: readonly (FailingPod)[];
  readonly suspects: readonly (SuspectNode)[];
  readonly maintenance: readonly (NodeInMaintenance)[];
  readonly drains: readonly (NodeDrainView)[];
  /** Unschedulable pods, the most important ones first; at most 100. */
  readonly pending: readonly (PendingPodView)[];
  /** Number of unschedulable pods. */
  readonly pendingCount: number;
  /** Kinds that this process can't read, as messages. */
  readonly problems: readonly (string)[];
}

/** Totals. A plan lists a limited number of refusals; this counts them all. */
export interface SummaryForm {
  readonly moves: number;
  readonly waves: number;
  readonly byStrategy: Readonly<Record<string, number>>;
  /** number of pods and nodes, by reason */
  readonly refused: Readonly<Record<string, number>>;
  /** by resource */
  readonly load: Readonly<Record<string, OutlookForm>>;
  /** what the plan assumes because the input does not say */
  readonly assumptions: readonly (string)[];
}

export interface SuspectNode {
  readonly node: string;
  readonly workloads: number;
  readonly why: string;
}

export interface UndrainAction {
  readonly kind: "undrain";
  readonly node: string;
}

/** Nodes that the same rules forbid. */
export interface VerdictRow {
  /** Columns that forbid them; empty if the pod fits. */
  readonly forbiddenBy: readonly (number)[];
  readonly nodes: readonly (string)[];
  /** By node, one text per column of `forbidden_by`; only of the first nodes. */
  readonly details: Readonly<Record<string, readonly (string)[]>>;
}

/** The load of every node that a wave changes, in percent of allocatable, when the wave is done. */
export interface WaveView {
  /** The first wave is 1. */
  readonly wave: number;
  readonly moves: number;
  readonly nodes: readonly (string)[];
  /** By resource, in the order of `nodes`. */
  readonly loads: Readonly<Record<string, readonly (number)[]>>;
}

/** Changes to make before planning again. Settings that are left out are as in the cluster. */
export interface WhatIfRequest {
  readonly cpuThreshold?: number | null;
  readonly memoryThreshold?: number | null;
  readonly imbalanceThreshold?: number | null;
  readonly maxMoves?: number | null;
  readonly strategies?: readonly (string)[] | null;
  readonly drain?: readonly (string)[];
  readonly pin?: readonly (PinnedPod)[];
  readonly addNodes?: readonly (SimilarNodes)[];
}

export interface WhatIfView {
  readonly request: WhatIfRequest;
  /** The request, for a link: GET /api/v1/what-if/{code}. */
  readonly code: string;
  readonly plan: PlanView;
  /** Pods that can't go where asked. */
  readonly refusedPins: readonly (RefusalView)[];
  readonly addedNodes: readonly (string)[];
  /** false if the plan needs nodes that don't exist. */
  readonly canApply: boolean;
  readonly notes: readonly (string)[];
}
