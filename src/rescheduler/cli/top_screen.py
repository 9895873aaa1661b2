"""The live view of `rescheduler top`: nodes as bars, moves with their steps, halts and recent activity.

The screen only shows what a `TopSource` returns and passes the user's requests on. Names and messages come
from the cluster: they are shown as plain text, never as markup.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from rescheduler.cli.terminal import Terminal, load_cell, printable

__all__ = ["MoveRow", "NodeRow", "TopScreen", "TopSource", "TopState", "sorted_nodes"]

_BAR_WIDTHS = (12, 6, 0)
"""The widest that fits is used."""
_CELL_PADDING = 2
_COMPACT_BELOW = 70
"""Columns that the keys need below the tables."""
_NODE_HEADS = ("NODE", "CPU", "MEMORY", "PODS", "STATE")
_MOVE_HEADS = ("MIGRATION", "STATUS", "AGE", "FROM → TO", "REASON")
_MIN_TEXT_WIDTH = 20
_SORTS = ("cpu", "memory", "pods", "name")


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: float
    """Percent of allocatable, as is `memory`."""
    memory: float
    pods: int
    state: str
    """The state in words, such as `Ready, cordoned`."""


@dataclass(frozen=True, slots=True)
class MoveRow:
    key: str
    """The key of the PodMigration."""
    status: str
    """The progress in words, such as `copy ready, settling 6/10 s`."""
    age: str
    nodes: str
    """Source and target: `worker-1 → worker-2`."""
    reason: str
    is_finished: bool


@dataclass(frozen=True, slots=True)
class TopState:
    """What the screen shows at one moment."""

    summary: tuple[str, ...] = ()
    """Leader, dry run, halts and balance."""
    nodes: tuple[NodeRow, ...] = ()
    moves: tuple[MoveRow, ...] = ()
    """Unfinished ones first, then those that finished last."""


class TopSource(Protocol):
    """Where the screen gets what it shows, and what carries out what the user requests.

    `width` is the number of columns that lines of text may have.
    """

    async def current_state(self) -> TopState: ...

    async def explain_node(self, name: str, width: int) -> Sequence[str]: ...

    async def explain_pod(self, key: str, width: int) -> Sequence[str]: ...

    async def plan(self, width: int) -> Sequence[str]: ...

    async def pods_on(self, node: str) -> Sequence[str]:
        """Return the keys of the pods on the node."""
        ...

    async def pause(self) -> str: ...

    async def resume(self) -> str: ...

    async def cancel(self, migration: str) -> str: ...


def sorted_nodes(nodes: Sequence[NodeRow], by: str, wanted: str) -> list[NodeRow]:
    """Return the nodes whose name contains `wanted`: the most loaded first, or by name."""
    found = [node for node in nodes if wanted.lower() in node.name.lower()]
    if by == "name":
        return sorted(found, key=lambda node: node.name)
    return sorted(found, key=lambda node: (-getattr(node, by), node.name))


class TextPage(ModalScreen[None]):
    """Shows lines of text until Escape; with `pods`, a list to choose a pod from."""

    BINDINGS: ClassVar = [Binding("escape,q", "dismiss", "Back")]
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
                yield DataTable(id="pods", cursor_type="row")
            yield Static(_plain("\n".join(self._lines)), id="page")
        yield Footer()

    def on_mount(self) -> None:
        if self._pods:
            table = self.query_one("#pods", DataTable)
            table.add_column("PODS: press Enter to explain one")
            for pod in self._pods:
                table.add_row(_plain(pod), key=pod)
            table.focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        if event.row_key.value is not None:
            self._open_pod(event.row_key.value)


class Confirmation(ModalScreen[bool]):
    """A question; `y` confirms it, any other key does not."""

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
    """Refreshes itself every `interval_s`."""

    TITLE = "rescheduler top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: auto; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    #nodes { height: 2fr; }
    #moves { height: 1fr; min-height: 5; border-top: solid $primary; }
    """
    BINDINGS: ClassVar = [
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter"),
        Binding("tab", "focus_next", "Nodes/moves"),
        Binding("p", "plan", "Plan"),
        Binding("P", "pause", "Pause"),
        Binding("R", "resume", "Resume"),
        Binding("c", "cancel", "Cancel"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, source: TopSource, *, interval_s: float = 5.0) -> None:
        super().__init__()
        self._source = source
        self._interval_s = interval_s
        self._state = TopState()
        self._sort = _SORTS[0]
        self._filter = ""
        self.refreshes = 0
        """How often the state was read."""

    def compose(self) -> ComposeResult:
        yield Static("Reading the cluster…", id="summary")
        yield Input(placeholder="part of a node's name; Enter closes", id="filter")
        yield DataTable(id="nodes", cursor_type="row")
        yield DataTable(id="moves", cursor_type="row")
        yield Footer(compact=self.size.width < _COMPACT_BELOW)

    def on_mount(self) -> None:
        self.query_one("#nodes", DataTable).focus()
        self._refresh_for_ever()

    def on_resize(self, event: events.Resize) -> None:
        for footer in self.query(Footer):  # the first event comes before there is one
            footer.compact = event.size.width < _COMPACT_BELOW
        if self.refreshes:
            self._show()

    @work
    async def _refresh_for_ever(self) -> None:
        while True:
            problem = ""
            try:
                self._state = await self._source.current_state()
            except Exception as error:  # noqa: BLE001 - shown; the next attempt may succeed
                problem = f"Can't read the cluster: {error}"
            if not self.query("#summary"):
                return  # the screen was closed meanwhile
            if problem:
                self.query_one("#summary", Static).update(_plain(problem))
            else:
                self.refreshes += 1
                self._show()
            await asyncio.sleep(self._interval_s)

    def _show(self) -> None:
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

    @work
    async def _open_node(self, name: str) -> None:
        try:
            lines = await self._source.explain_node(name, self._text_width)
            pods = await self._source.pods_on(name)
        except Exception as error:  # noqa: BLE001 - shown
            self._notify(str(error))
            return
        self.push_screen(TextPage(name, lines, pods, self._open_pod))

    def _open_pod(self, key: str) -> None:
        self._open_text(key, lambda: self._source.explain_pod(key, self._text_width))

    def action_plan(self) -> None:
        self._open_text("Plan: what the next check would move", lambda: self._source.plan(self._text_width))

    @work
    async def _open_text(self, title: str, read: Callable[[], Awaitable[Sequence[str]]]) -> None:
        try:
            lines = await read()
        except Exception as error:  # noqa: BLE001 - shown
            self._notify(str(error))
            return
        self.push_screen(TextPage(title, lines))

    def action_pause(self) -> None:
        self._ask("Pause the daemon: it starts no more moves?", self._source.pause)

    def action_resume(self) -> None:
        self._ask("Resume: the next check can move pods?", self._source.resume)

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
        self._ask(f"Cancel {chosen}: roll it back, or finish it?", lambda: self._source.cancel(chosen))

    @work
    async def _ask(self, question: str, act: Callable[[], Awaitable[str]]) -> None:
        if await self.push_screen_wait(Confirmation(question)):
            try:
                self._notify(await act())
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
    """Return the width of bars with which all columns fit, else that of none: names stay whole."""
    names = max((len(node.name) for node in nodes), default=0)
    states = max((len(node.state) for node in nodes), default=0)
    numbers = 2 * len(" 100%") + len("PODS")
    fixed = names + states + numbers + _CELL_PADDING * len(_NODE_HEADS)
    return next((bar for bar in _BAR_WIDTHS if fixed + 2 * bar <= width), 0)


_Rows = list[tuple[str, tuple[str, ...]]]
"""Key and cells of each row."""


def _move_cells(moves: Sequence[MoveRow], width: int) -> tuple[tuple[str, ...], _Rows]:
    """Return the heads and rows of moves. Where they are too wide, all is below the name."""
    rows: _Rows = [(move.key, (move.key, move.status, move.age, move.nodes, move.reason)) for move in moves]
    needed = [max(len(row[column]) for _, row in rows) + _CELL_PADDING for column in range(4)] if rows else []
    if sum(needed) <= width:
        return _MOVE_HEADS, rows
    narrow: _Rows = []
    for move in moves:
        fits = len(move.nodes) + _CELL_PADDING <= width
        nodes = move.nodes if fits else move.nodes.replace(" → ", " →\n")
        lines = (move.key, f"{move.status}, {move.age}", nodes, move.reason)
        narrow.append((move.key, ("\n".join(filter(None, lines)),)))
    return _MOVE_HEADS[:1], narrow


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
    """Show these rows, with the cursor on the row where it was."""
    here = table.ordered_rows[table.cursor_row].key.value if table.row_count else None
    top = table.scroll_y
    table.clear(columns=True)
    table.add_columns(*heads)
    for key, cells in rows:
        table.add_row(*cells, key=key, height=None)
    place = next((place for place, (key, _) in enumerate(rows) if key == here), 0)
    table.move_cursor(row=place, scroll=False)
    table.scroll_to(y=top, animate=False)
