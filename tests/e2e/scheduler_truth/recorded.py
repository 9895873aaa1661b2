"""The recorded answers of the real scheduler, for comparison where no scheduler runs."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.scheduler_truth.random_cluster import Object
from tests.e2e.scheduler_truth.verdicts import FITS, Refused

__all__ = ["RECORD", "Recorded", "read", "write"]

RECORD = Path(__file__).with_name("answers.json.gz")


class Recorded(NamedTuple):
    """One cluster."""

    objects: list[Object]
    answers: list[tuple[Object, str, Refused | str]]
    """Pod, node, and what the real scheduler said."""


def write(path: Path, seed: int, clusters: list[Recorded]) -> None:
    listed = [
        {
            "objects": [_plain(item) for item in cluster.objects],
            "answers": [
                {"pod": _plain(pod), "node": node, "truth": None if truth == FITS else _as_json(truth)}
                for pod, node, truth in cluster.answers
            ],
        }
        for cluster in clusters
    ]
    text = json.dumps({"seed": seed, "clusters": listed}, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0))


def read(path: Path = RECORD) -> Iterator[Recorded]:
    for cluster in json.loads(gzip.decompress(path.read_bytes()))["clusters"]:
        answers = [(said["pod"], said["node"], _from_json(said["truth"])) for said in cluster["answers"]]
        yield Recorded(cluster["objects"], answers)


def _plain(item: Object) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}


def _as_json(truth: Any) -> Object:
    return {"rule": truth.rule, "reasons": sorted(truth.reasons)}


def _from_json(truth: Object | None) -> Refused | str:
    return FITS if truth is None else Refused(truth["rule"], frozenset(truth["reasons"]))
