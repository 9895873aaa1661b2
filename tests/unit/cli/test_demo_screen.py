"""What the demo's screen shows, and what it leaves out on a small terminal."""

import io
from types import SimpleNamespace

from rich.console import Console

from rescheduler.api.podmigration import decode_migration
from rescheduler.cli.demo.demo_scenario import CHAPTERS
from rescheduler.cli.demo.demo_screen import LiveDemoScreen


def moving(pod, message):
    metadata = {"namespace": "shop", "name": pod, "uid": "m", "creationTimestamp": "2026-03-02T12:00:00Z"}
    return decode_migration({
        "metadata": metadata,
        "spec": {"pod": {"name": pod, "uid": "u"}, "sourceNode": "worker-1", "targetNode": "worker-6"},
        "status": {"phase": "InProgress", "step": "Marking", "message": message},
    })  # fmt: skip


def shown(width, height, migrations=(), news=0):
    """The lines of one frame, as a terminal of that size has them."""
    printed = io.StringIO()
    screen = LiveDemoScreen(Console(file=printed, width=width, height=height))
    screen.begin(SimpleNamespace(nodes=(), pods=(), running_migrations=list(migrations)))
    screen.chapter(CHAPTERS[0])
    for number in range(news):
        screen.report_result(SimpleNamespace(title=f"news {number}"), "")
    screen.console.print(screen.frame())
    return printed.getvalue().splitlines()


def test_on_a_low_terminal_the_oldest_news_are_left_out_never_the_latest():
    lines = shown(width=80, height=12, news=6)
    assert len(lines) <= 12
    assert "news 5" in lines[-1]
    assert not any("news 0" in line for line in lines)


def test_news_are_cut_between_words():
    """A part of a name would look like another name."""
    assert shown(width=24, height=12, news=1)[-1].endswith("✓ news 0")
    assert shown(width=len("  0:00  ✓ news"), height=12, news=1)[-1].endswith("✓ …")


def test_where_a_pod_goes_is_never_cut_however_much_there_is_to_say():
    pods = [f"web-6649fd57f5-{number:05d}" for number in range(3)]
    lines = shown(width=100, height=40, migrations=[moving(pod, "it waits " * 20) for pod in pods])
    for pod in pods:
        (line,) = [line for line in lines if pod in line]
        assert "worker-1 → worker-6" in line
        assert "Marking" in line
        assert line.rstrip().endswith("…")


def test_on_a_narrow_terminal_the_step_and_its_countdown_are_not_cut():
    pod = "checkout-6649fd57f5-abcde"
    lines = shown(width=60, height=40, migrations=[moving(pod, "copy ready, settling 6/10 s")])
    place = next(number for number, line in enumerate(lines) if pod in line)
    assert "worker-1 → worker-6" in lines[place]
    assert lines[place + 1].split("  ")[1:] == ["Marking", "copy ready, settling 6/10 s"]


def test_the_words_of_a_chapter_stand_under_its_title_in_every_line():
    words = [line for line in shown(width=60, height=40)[1:] if line.strip()][:3]
    assert "worker-1 and worker-2 are busy" in words[0]
    assert all(line.startswith(" " * 8) for line in words)
