"""The watershed: the source is evicted, or the attempt is called off for good.

Calling off begins by taking our marks off the source, while the step is still Evicting. That raises the
pod's version, so that an eviction which another process may still have in flight is refused: every
eviction names the version that it saw. Only when the source is seen unmarked and standing does the
migration leave this step backwards.
"""

from rescheduler.migrations.effects import EvictSource, UnmarkSource
from rescheduler.migrations.interference import interrupted
from rescheduler.migrations.scene import Do, Happened, Scene, Sight
from rescheduler.migrations.steps import Event
from rescheduler.model.migrations import PodReference

__all__ = ["evicting", "evicting_beside_copy"]


def evicting_beside_copy(scene: Scene) -> Sight:
    """Adopt and Copy: only as long as the copy serves."""
    if not scene.source_stands:
        return Happened(Event.SOURCE_LEFT, "the source is evicted")
    if scene.target is None or scene.target.is_terminating:
        return _called_off(scene, Happened(Event.COPY_GONE, "somebody removed the copy", "CopyGone"))
    if not scene.target.is_ready:
        return Happened(Event.COPY_UNREADY, f"copy {scene.target.name} is not ready any more")
    return evicting(scene)


def evicting(scene: Scene) -> Sight:
    if not scene.source_stands:
        return Happened(Event.SOURCE_LEFT, "the source is evicted")
    source = scene.source
    assert source is not None
    ended = interrupted(scene)
    if ended is None and not scene.source_is_ours:
        # Another process has begun to call it off, and ended before it could say why.
        ended = Happened(Event.TIMED_OUT, "called off", "CalledOff")
    if ended is not None:
        return _called_off(scene, ended)
    return Do(EvictSource(PodReference(source.name, source.uid), source.resource_version))


def _called_off(scene: Scene, why: Happened) -> Sight:
    source = scene.source
    assert source is not None
    if scene.source_is_ours:
        return Do(UnmarkSource(PodReference(source.name, source.uid), source.resource_version))
    return why
