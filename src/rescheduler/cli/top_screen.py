"""The live view of `rescheduler top`: nodes as bars, moves with their steps, halts and recent activity.

The screen only shows the state that a `TopSource` returns, and passes on the user's requests. Names and
messages come from the cluster, so they are shown as plain text, never as markup.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from rescheduler.cli.status_view import MoveRow, NodeRow, TopSource, TopState, sorted_nodes
from rescheduler.cli.terminal import Terminal, cut_sentence, load_cell, printable

__all__ = ["TopScreen"]

_BAR_WIDTHS = (30, 20, 12, 6, 0)
"""The widths of bars, of which the widest that fits is used."""
_CELL_PADDING = 2
_LOADING_INTERVAL_S = 0.25
_COMPACT_BELOW = 100
"""The width that the list of keys below the tables needs."""
_NODE_HEADS = ("NODE", "CPU", "MEMORY", "PODS", "STATE")
_MOVE_HEADS = ("MIGRATION", "STATUS", "AGE", "FROM → TO", "REASON")
_MIN_REASON = 24
"""The least width with which reasons are shown; Enter shows the whole reason."""
_MIN_TEXT_WIDTH = 20
_SORTS = ("cpu", "memory", "pods", "name")


class _Table(DataTable[Text]):
    """A table whose rows can be opened, as the list of keys says."""

    BINDINGS: ClassVar = [Binding("enter", "select_cursor", "Open")]


class TextPage(ModalScreen[None]):
    """Shows lines of text until Escape; with `pods`, also a list from which to choose a pod."""

    BINDINGS: ClassVar = [
        Binding("escape,q", "dismiss", "Back"),
        # The list of pods has the focus, so these keys would move its cursor.
        Binding("pagedown,space", "scroll(1)", "Down", priority=True),
        Binding("pageup", "scroll(-1)", "Up", priority=True),
    ]
    WIDTH_PERCENT: ClassVar = 95
    DEFAULT_CSS = f"""
    TextPage {{ align: center middle; }}
    TextPage VerticalScroll {{ width: {WIDTH_PERCENT}%; height: 90%; border: round $primary; }}
    TextPage VerticalScroll {{ background: $surface; }}
    TextPage DataTable {{ height: auto; max-height: 40%; margin-bottom: 1; }}
    """

    def __init__(
        self,
        title: str,
        lines: Sequence[str],
        pods: Sequence[str] = (),
        open_pod: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._title = title
        self._lines = lines
        self._pods = pods
        self._open_pod = open_pod

    def compose(self) -> ComposeResult:
        with VerticalScroll() as around:
            around.border_title = printable(self._title).replace("[", r"\[")
            if self._pods:
                yield _Table(id="pods", cursor_type="row")
            yield Static(_plain("\n".join(self._lines)), id="page")
        yield Footer()

    def on_mount(self) -> None:
        for table in self.query("#pods").results(DataTable):  # none if the page has been closed
            table.add_column("PODS: press Enter to explain one")
            for pod in self._pods:
                table.add_row(_plain(pod), key=pod)
            table.focus()

    def action_scroll(self, pages: int) -> None:
        around = self.query_one(VerticalScroll)
        around.scroll_relative(y=pages * around.size.height, animate=False)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        if event.row_key.value is not None:
            self._open_pod(event.row_key.value)


class Confirmation(ModalScreen[bool]):
    """A question, which `y` confirms and any other key denies."""

    DEFAULT_CSS = """
    Confirmation { align: center middle; }
    Confirmation Static { width: auto; max-width: 90%; padding: 1 3; border: round $warning; }
    Confirmation Static { background: $surface; }
    """

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(_plain(f"{self._question} [y/N]"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        self.dismiss(event.key == "y")


class TopScreen(App[None]):
    """Shows the state of its source, and reads it every `interval_s`."""

    TITLE = "rescheduler top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: auto; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    #nodes { height: auto; max-height: 60%; }
    #moves { height: 1fr; min-height: 5; border-top: solid $primary; }
    """
    BINDINGS: ClassVar = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),  # also on pages and in the filter
        Binding("tab", "app.focus_next", "Moves", priority=True),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter"),
        Binding("p", "plan", "Plan"),
        Binding("c", "cancel", "Cancel"),
        Binding("P", "pause", "Pause"),
        Binding("R", "resume", "Resume"),
    ]

    def __init__(self, source: TopSource | None = None, *, interval_s: float = 5.0) -> None:
        """Show `step` until `start` is called if there is no `source`."""
        super().__init__()
        self._source = source
        self.step = "Connecting to the API server"
        """The current step before the first state is shown."""
        self.is_shown = asyncio.Event()
        self._began_s = time.monotonic()
        self._interval_s = interval_s
        self._state = TopState()
        self._has_read = False
        self._sort = _SORTS[0]
        self._filter = ""
        self.refreshes = 0
        """The number of times that the state was read."""

    def compose(self) -> ComposeResult:
        yield Static(self._loading_text(), id="summary")
        yield Input(placeholder="part of a node's name; Enter closes", id="filter")
        yield _Table(id="nodes", cursor_type="row")
        yield _Table(id="moves", cursor_type="row")
        yield Footer(compact=self.size.width < _COMPACT_BELOW)

    def on_mount(self) -> None:
        self.query_one("#nodes", DataTable).focus()
        self.set_interval(_LOADING_INTERVAL_S, self._show_loading)
        if self._source is not None:
            self.start(self._source)
        self.call_after_refresh(self.is_shown.set)

    def start(self, source: TopSource) -> None:
        """Start to show the state of this source."""
        self._source = source
        self._refresh_forever(source)

    def _loading_text(self) -> str:
        return f"{self.step}… {time.monotonic() - self._began_s:.0f} s. Press q to quit."

    def _show_loading(self) -> None:
        for summary in self.query("#summary").results(Static) if not self._has_read else ():
            summary.update(_plain(self._loading_text()))

    @property
    def _loaded(self) -> TopSource:
        if self._source is None:
            raise RuntimeError("The cluster is still being read. Try again in a moment.")
        return self._source

    def on_resize(self, event: events.Resize) -> None:
        for footer in self.query(Footer):  # there is none at the first event
            footer.compact = event.size.width < _COMPACT_BELOW
        self.call_after_refresh(self._show)  # until then, `size` is the old one

    @work
    async def _refresh_forever(self, source: TopSource) -> None:
        while True:
            problem = ""
            try:
                self._state = await source.current_state()
            except Exception as error:  # noqa: BLE001 - shown; the next attempt may succeed
                problem = f"Can't read the cluster: {error}"
            if not self.query("#summary"):
                return  # the screen has been closed
            self._has_read = True
            if problem:
                self.query_one("#summary", Static).update(_plain(problem))
            else:
                self.refreshes += 1
                self._show()
            await asyncio.sleep(self._interval_s)

    def _show(self) -> None:
        if not self.refreshes:
            return
        self.query_one("#summary", Static).update(_plain("\n".join(self._state.summary)))
        nodes = self.query_one("#nodes", DataTable)
        rows = sorted_nodes(self._state.nodes, self._sort, self._filter)
        bar = _bar_width(rows, self.size.width)
        _replace_rows(nodes, _NODE_HEADS, [(node.name, _node_cells(node, bar)) for node in rows])
        moves = self.query_one("#moves", DataTable)
        heads, cells = _move_cells(self._state.moves, self.size.width)
        _replace_rows(moves, heads, [(key, tuple(_plain(text) for text in row)) for key, row in cells])

    # -- keys

    def action_sort(self) -> None:
        self._sort = _SORTS[(_SORTS.index(self._sort) + 1) % len(_SORTS)]
        self.notify(f"sorted by {self._sort}", timeout=2)
        self._show()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.remove_class("shown")
        self.query_one("#nodes", DataTable).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        key = event.row_key.value
        if event.data_table.id == "nodes" and key is not None:
            self._open_node(key)
        elif key is not None:
            self._open_text(key, lambda: self._loaded.show_move(key, self._text_width))

    @work
    async def _open_node(self, name: str) -> None:
        try:
            lines = await self._loaded.explain_node(name, self._text_width)
            pods = await self._loaded.pods_on(name)
        except Exception as error:  # noqa: BLE001 - shown
            self._notify(str(error))
            return
        self.push_screen(TextPage(name, lines, pods, self._open_pod))

    def _open_pod(self, key: str) -> None:
        self._open_text(key, lambda: self._loaded.explain_pod(key, self._text_width))

    def action_plan(self) -> None:
        self._open_text("Plan: what the next check would move", lambda: self._loaded.plan(self._text_width))

    @work
    async def _open_text(self, title: str, read: Callable[[], Awaitable[Sequence[str]]]) -> None:
        try:
            lines = await read()
        except Exception as error:  # noqa: BLE001 - shown
            self._notify(str(error))
            return
        self.push_screen(TextPage(title, lines))

    def action_pause(self) -> None:
        self._ask("Pause the daemon, so that it starts no more moves?", lambda source: source.pause())

    def action_resume(self) -> None:
        self._ask("Resume, so that the next check can move pods?", lambda source: source.resume())

    def action_cancel(self) -> None:
        """Cancel the move under the cursor."""
        moves = self.query_one("#moves", DataTable)
        unfinished = {move.key for move in self._state.moves if not move.is_finished}
        key = moves.ordered_rows[moves.cursor_row].key.value if moves.row_count else None
        if key not in unfinished:
            self._notify("Choose a move that is not finished: Tab goes to the list of moves.")
            return
        assert key is not None
        chosen: str = key
        self._ask(
            f"Cancel {chosen}? It is rolled back, or finished if its pod is already evicted.",
            lambda source: source.cancel(chosen),
        )

    @work
    async def _ask(self, question: str, act: Callable[[TopSource], Awaitable[str]]) -> None:
        if await self.push_screen_wait(Confirmation(question)):
            try:
                self._notify(await act(self._loaded))
            except Exception as error:  # noqa: BLE001 - shown
                self._notify(str(error))

    @property
    def _text_width(self) -> int:
        """Return the columns of text within a `TextPage`, without its border and scroll bar."""
        return max(_MIN_TEXT_WIDTH, self.size.width * TextPage.WIDTH_PERCENT // 100 - 4)

    def _notify(self, words: str) -> None:
        self.notify(printable(words).replace("[", r"\["), timeout=8)


def _plain(text: str) -> Text:
    """Return text from the cluster without markup and control characters."""
    return Text(printable(text, keep_newlines=True))


_WIDE_COLOURED = Terminal(width=None, colour=True, unicode=True)


def _bar_width(nodes: Sequence[NodeRow], width: int) -> int:
    """Return the largest width of bars with which all columns fit; 0 if none fits, as names stay whole."""
    names = max((len(node.name) for node in nodes), default=0)
    states = max((len(node.state) for node in nodes), default=0)
    numbers = 2 * len(" 100%") + len("PODS")
    fixed = names + states + numbers + _CELL_PADDING * len(_NODE_HEADS)
    return next((bar for bar in _BAR_WIDTHS if fixed + 2 * bar <= width), 0)


_Rows = list[tuple[str, tuple[str, ...]]]
"""The key and the cells of each row."""


def _move_cells(moves: Sequence[MoveRow], width: int) -> tuple[tuple[str, ...], _Rows]:
    """Return the heads and rows of moves; if they are too wide, with everything below the name.

    Reasons are omitted first, because Enter shows them.
    """
    rows: _Rows = [(move.key, (move.key, move.status, move.age, move.nodes)) for move in moves]
    needed = [max((len(row[column]) for _, row in rows), default=0) + _CELL_PADDING for column in range(4)]
    room = width - sum(needed) - _CELL_PADDING
    if room >= min(_MIN_REASON, max((len(move.reason) for move in moves), default=0)):
        reasons = [cut_sentence(move.reason, room) for move in moves]
        return _MOVE_HEADS, [
            (key, (*cells, reason)) for (key, cells), reason in zip(rows, reasons, strict=True)
        ]
    if sum(needed) <= width:
        return _MOVE_HEADS[:4], rows
    return _MOVE_HEADS[:1], [(move.key, (_narrow_cell(move, width - _CELL_PADDING),)) for move in moves]


def _narrow_cell(move: MoveRow, width: int) -> str:
    status = f"{move.status}, {move.age}"
    if len(status) + len(move.nodes) + 4 <= width:
        return f"{move.key}\n  {move.nodes}  {status}"
    nodes = move.nodes if len(move.nodes) + 2 <= width else move.nodes.replace(" → ", " →\n  ")
    return f"{move.key}\n  {nodes}\n  {cut_sentence(status, width - 2)}"


def _node_cells(node: NodeRow, bar: int) -> tuple[Text, ...]:
    return (
        _plain(node.name),
        _bar(node.cpu, bar),
        _bar(node.memory, bar),
        Text(str(node.pods), justify="right"),
        Text(printable(node.state), style="" if node.state == "Ready" else "yellow"),
    )


def _bar(percent: float, width: int) -> Text:
    cell = load_cell(_WIDE_COLOURED, percent, width)
    return Text(cell.text, style=str(cell.style["fg"]))


def _replace_rows(
    table: "DataTable[Text]", heads: Sequence[str], rows: Sequence[tuple[str, Sequence[Text]]]
) -> None:
    """Replace the rows, and keep the cursor on its row.

    A cursor on the first row stays on the first row. Otherwise it would hide new rows above it, such as a
    move that has just started.
    """
    here = table.ordered_rows[table.cursor_row].key.value if table.cursor_row else None
    top = table.scroll_y
    table.clear(columns=True)
    table.add_columns(*heads)
    for key, cells in rows:
        table.add_row(*cells, key=key, height=None)
    place = next((place for place, (key, _) in enumerate(rows) if key == here), 0)
    table.move_cursor(row=place, scroll=False)
    table.scroll_to(y=top, animate=False)
