"""The metadata that replicas share, from protobuf."""

from sys import intern
from typing import NamedTuple

from rescheduler.kube.wire import meta_pb2, views_pb2
from rescheduler.kube.wire.memo import Memo
from rescheduler.model.metadata import Owner, is_mark

__all__ = ["MetaPart", "Metas"]


class MetaPart(NamedTuple):
    labels: dict[str, str]
    owners: tuple[Owner, ...]
    finalizers: tuple[str, ...]
    has_marks: bool
    deleted_s: int | None
    deletion_grace_s: int | None


class Metas:
    """Label by label, because a StatefulSet gives two of them to one pod alone."""

    def __init__(self) -> None:
        self._labels: Memo[bytes, tuple[str, str]] = Memo(_label)
        self._owners: Memo[bytes, Owner] = Memo(_owner)
        self._marks: Memo[str, bool] = Memo(is_mark)

    def part(self, raw: bytes) -> MetaPart:
        meta = views_pb2.SharedMeta.FromString(raw)
        is_deleted = meta.HasField("deletionTimestamp")
        has_grace = meta.HasField("deletionGracePeriodSeconds")
        return MetaPart(
            labels=dict([self._labels[label] for label in meta.labels]),
            owners=tuple([self._owners[owner] for owner in meta.ownerReferences]),
            finalizers=tuple(meta.finalizers),
            has_marks=any(self._marks[annotation.key] for annotation in meta.annotations),
            deleted_s=meta_pb2.Time.FromString(meta.deletionTimestamp).seconds if is_deleted else None,
            deletion_grace_s=meta.deletionGracePeriodSeconds if has_grace else None,
        )


def _label(raw: bytes) -> tuple[str, str]:
    entry = views_pb2.StringEntry.FromString(raw)
    return intern(entry.key), intern(entry.value)


def _owner(raw: bytes) -> Owner:
    owner = meta_pb2.OwnerReference.FromString(raw)
    return Owner(
        intern(owner.kind), intern(owner.name), owner.uid, intern(owner.apiVersion), owner.controller
    )
