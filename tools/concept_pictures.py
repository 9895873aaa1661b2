"""Draw the pictures of docs/concepts.md and docs/architecture.md, in English and Chinese.

python -m tools.concept_pictures --check docs | --write docs
"""

import sys
from pathlib import Path
from typing import Final

from tools.svg_picture import Picture

__all__ = ["main", "pictures"]

_CHINESE: Final = {
    "How data flows": "数据流",
    "cluster": "集群",
    "snapshot\nfrozen": "快照\n只读",
    "strategies\npropose moves": "策略\n提出迁移",
    "plan\nmoves in waves": "计划\n按批次排序",
    "PodMigration\none per move": "PodMigration\n每次迁移一个",
    "controller\nobserve, decide, act": "控制器\n观察、决策、执行",
    "decide": "决策",
    "record": "记录",
    "execute": "执行",
    "rules": "调度规则",
    "create, evict": "创建、驱逐",
    "watch": "监听",
    "A pod is evicted, and a pod is moved": "驱逐 Pod 与迁移 Pod 的对比",
    "evicted": "直接驱逐",
    "moved (Adopt)": "迁移（Adopt）",
    "pod on node-1": "node-1 上的 Pod",
    "replacement": "替代 Pod",
    "copy on node-2": "node-2 上的新 Pod",
    "starts": "启动中",
    "serves": "提供服务",
    "ready pods": "就绪 Pod 数",
    "time": "时间",
    "copy ready": "新 Pod 就绪",
    "settled: evicted, and the ReplicaSet adopts the copy": "稳定后：驱逐原 Pod，ReplicaSet 接管新 Pod",
    "A drain by another client": "其他客户端执行 drain",
    "kubectl drain": "kubectl drain",
    "API server": "API server",
    "webhook": "webhook",
    "rescheduler": "rescheduler",
    "evict the pod": "驱逐 Pod",
    "may it be evicted?": "允许驱逐吗？",
    "not yet: requests a PodMigration": "暂缓：请求创建 PodMigration",
    "429, retry": "429，请重试",
    "moves the pod: copy ready, then eviction": "迁移 Pod：新 Pod 就绪后再驱逐",
    "evict the pod again": "再次驱逐 Pod",
    "404: the pod is gone": "404：Pod 已不存在",
}


class _Labels:
    """Texts in one language."""

    def __init__(self, *, chinese: bool) -> None:
        self._chinese = chinese

    def __call__(self, text: str) -> str:
        return _CHINESE[text] if self._chinese else text


def pictures() -> dict[str, str]:
    """Return all pictures, by their path below docs/."""
    return {
        f"{folder}/{name}.svg": draw(_Labels(chinese=chinese))
        for folder, chinese in (("images", False), ("zh/images", True))
        for name, draw in (("data-flow", _data_flow), ("evict-and-move", _evict_and_move), ("drain", _drain))
    }


def _data_flow(text: _Labels) -> str:
    picture = Picture(860, 250, text("How data flows"))
    boxes = ("snapshot\nfrozen", "strategies\npropose moves", "plan\nmoves in waves")
    picture.box(20, 60, 110, 150, text("cluster"))
    for number, name in enumerate(boxes):
        left = 190 + number * 220
        picture.box(left, 60, 150, 50, text(name), fill="blue")
        if number:
            picture.arrow((left - 70, 85), (left, 85))
    picture.arrow((130, 85), (190, 85))
    picture.text(375, 78, text("rules"), anchor="middle")
    picture.box(630, 160, 150, 50, text("PodMigration\none per move"), fill="warm")
    picture.arrow((705, 110), (705, 160))
    picture.box(300, 160, 190, 50, text("controller\nobserve, decide, act"), fill="good")
    picture.arrow((630, 185), (490, 185))
    picture.text(560, 178, text("watch"), anchor="middle")
    picture.arrow((300, 185), (130, 185))
    picture.text(215, 178, text("create, evict"), anchor="middle")
    picture.text(190, 46, text("decide"), bold=True)
    picture.text(630, 232, text("record"), bold=True)
    picture.text(300, 232, text("execute"), bold=True)
    return picture.svg()


def _evict_and_move(text: _Labels) -> str:
    picture = Picture(860, 380, text("A pod is evicted, and a pod is moved"))
    left, right = 160.0, 840.0

    def row(top: float, label: str) -> None:
        picture.text(left - 12, top + 19, text(label), anchor="end")

    def counts(top: float, *spans: tuple[float, float, int]) -> None:
        row(top, "ready pods")
        for start, end, count in spans:
            fill = "bad" if count == 0 else "good"
            picture.box(start, top, end - start, 28, str(count), fill=fill)

    picture.text(20, 28, text("evicted"), bold=True)
    row(40, "pod on node-1")
    picture.box(left, 40, 180, 28, text("serves"), fill="blue")
    row(76, "replacement")
    picture.box(340, 76, 200, 28, text("starts"))
    picture.box(540, 76, right - 540, 28, text("serves"), fill="blue")
    counts(112, (left, 340, 1), (340, 540, 0), (540, right, 1))
    picture.text(20, 188, text("moved (Adopt)"), bold=True)
    row(200, "pod on node-1")
    picture.box(left, 200, 460, 28, text("serves"), fill="blue")
    row(236, "copy on node-2")
    picture.box(240, 236, 200, 28, text("starts"))
    picture.box(440, 236, right - 440, 28, text("serves"), fill="blue")
    counts(272, (left, 440, 1), (440, 620, 2), (620, right, 1))
    picture.line((440, 196), (440, 322))
    picture.text(440, 337, text("copy ready"), anchor="middle")
    picture.line((620, 196), (620, 346))
    picture.text(620, 361, text("settled: evicted, and the ReplicaSet adopts the copy"), anchor="middle")
    picture.arrow((left, 316), (right, 316))
    picture.text(right, 333, text("time"), anchor="end")
    return picture.svg()


def _drain(text: _Labels) -> str:
    picture = Picture(860, 350, text("A drain by another client"))
    names = ("kubectl drain", "API server", "webhook", "rescheduler")
    lanes = {name: 110.0 + number * 213 for number, name in enumerate(names)}
    for name, x in lanes.items():
        picture.box(x - 70, 16, 140, 30, text(name), fill="blue")
        picture.line((x, 46), (x, 334))

    def message(y: float, start: str, end: str, words: str) -> None:
        picture.arrow((lanes[start], y), (lanes[end], y))
        picture.text((lanes[start] + lanes[end]) / 2, y - 6, text(words), anchor="middle")

    message(80, "kubectl drain", "API server", "evict the pod")
    message(112, "API server", "webhook", "may it be evicted?")
    message(144, "webhook", "rescheduler", "not yet: requests a PodMigration")
    message(176, "API server", "kubectl drain", "429, retry")
    message(220, "rescheduler", "API server", "moves the pod: copy ready, then eviction")
    message(268, "kubectl drain", "API server", "evict the pod again")
    message(304, "API server", "kubectl drain", "404: the pod is gone")
    return picture.svg()


def main() -> int:
    writes, folder = "--write" in sys.argv, Path(sys.argv[-1])
    stale = 0
    for name, picture in pictures().items():
        file = folder / name
        if writes:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(picture, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != picture:
            sys.stderr.write(f"{file} is out of date: run `make generate`\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
