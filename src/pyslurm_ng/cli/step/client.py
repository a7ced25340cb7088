"""srun's side of a running step: one loop over nodes, terminal, signals and the controller.

Every node's supervisor connects to our port and sends streams and exits (wire.step_io). Nothing
in the loop waits for one of them alone.
"""

import os
import select
from time import monotonic

from pyslurm_ng.base.numbers import (
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGQUIT,
    SIGTERM,
    SIGWINCH,
)
from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.signals import Signals
from pyslurm_ng.cli.step.link import Door, Link
from pyslurm_ng.cli.step.streams import HIGH_BYTES, LOW_BYTES, Sink, StepIo
from pyslurm_ng.cli.step.tasks import StepTasks
from pyslurm_ng.cli.step.terminal import window_size
from pyslurm_ng.kernels.records import unpack
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

KEY_BYTES = 32
_CONNECT_S = 60.0
_FOLD_S = 0.05
"""So long ends of tasks are gathered, so that those alike share a line."""
_TTY_RETRY_S = 1.0
_FINISH_GRACE_S = 2.0
_EIO = 5


class StepClient:
    """Follows one step from launch to end.

    Attributes:
        tasks: their states.
        code: what srun shall leave with.
    """

    def __init__(
        self,
        tasks: StepTasks,
        streams: StepIo,
        signals: Signals,
        *,
        verbose: int = 0,
        quiet: bool = False,
        kill_on_bad_exit: bool = False,
        wait_s: int = 0,
        kill_wait_s: int = 30,
        show_status: bool = True,
        quit_on_interrupt: bool = False,
        ports: "tuple[int, int]" = (0, 0),
        abort_window_s: float = 1.0,
    ) -> None:
        """Listen for the nodes; raises OSError when no port is free."""
        self.tasks = tasks
        self.key = os.urandom(KEY_BYTES)
        self._streams = streams
        self._signals = signals
        self._verbose = verbose
        self._quiet = quiet
        self._kill_on_bad_exit = kill_on_bad_exit
        self._wait_s = wait_s
        self._kill_wait_s = kill_wait_s
        self._show_status = show_status
        self._quit_on_interrupt = quit_on_interrupt
        self._abort_window_s = abort_window_s
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._links: list[Link | None] = [None] * len(tasks.nodes)
        self._left_out: set[int] = set()
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self._is_reading_stdin = False
        self._stdin_is_over = streams.in_descriptor < 0
        self._is_choked = False
        self._we_ended_it = False
        self._all_connected = False
        self._orders: list[bytes] = []
        self._was_aborted = False
        self._is_over = False
        self._lost_code = 0
        self._interrupt_s = -1e9
        self._interrupts = 0
        self._terms = 0
        self._first_exit_s = 0.0
        self._door = Door(
            ports, self._watch, self._drop, self._set_timer, self._watch_link, self._hang_up
        )
        self.port = self._door.port
        self._watch(signals.descriptor, select.POLLIN, self._on_signal)

    # Set-up -------------------------------------------------------------------------------------

    def also_watch(self, descriptor: int, callback: "Callable[[], None]") -> None:
        """Call back when a descriptor (the controller's) can be read."""
        self._watch(descriptor, select.POLLIN, lambda _: callback())

    def forget(self, descriptor: int) -> None:
        """Stop watching a descriptor."""
        self._drop(descriptor)

    def leave_out(self, node: int, status: int) -> None:
        """Do without a node whose launch failed."""
        self._left_out.add(node)
        for task in self.tasks.of_node[node]:
            self.tasks.exited(task, status, 0)
        self.tasks.end_lines(0)

    def log(self, text: str) -> None:
        """Print a line, behind the output that came before it."""
        self._streams.err.advance()
        say(f"srun: {text}")

    def info(self, text: str) -> None:
        """Print a line unless --quiet."""
        if not self._quiet:
            self.log(text)

    # The loop -----------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until every task has ended and all output is written; return the exit code."""
        self._set_timer("connect", _CONNECT_S, self._nobody_came)
        while not self._is_finished():
            self._turn()
        self._tell_ends()
        for sink in (self._streams.out, self._streams.err):
            sink.advance(wait=True)
        self._close()
        if self._ended_by_signal() and not self._was_aborted:
            self.info(f"Force Terminated {self.tasks.step_name}")
        return max(self.tasks.code, self._lost_code)

    def _ended_by_signal(self) -> bool:
        return bool(self.tasks.worst_status & 0x7F) and self.tasks.code > 128

    def _is_finished(self) -> bool:
        if self._is_over:
            return True
        for node, link in enumerate(self._links):
            if node in self._left_out or (link is not None and link.is_done):
                continue
            return False
        return self.tasks.all_exited

    def _turn(self) -> None:
        sinks = (self._streams.out, self._streams.err)
        unwritten = sum(sink.unwritten for sink in sinks)
        timeout_s = 3600.0
        now_s = monotonic()
        if self._timers:
            timeout_s = max(0.0, min(at for at, _ in self._timers.values()) - now_s)
        for sink in sinks:
            if sink.unwritten:
                self._poll.register(sink.descriptor, select.POLLOUT)
        ready = self._poll.poll(int(timeout_s * 1000) + 1)
        for sink in sinks:
            if unwritten and sink.descriptor >= 0 and sink.descriptor not in self._callbacks:
                try:
                    self._poll.unregister(sink.descriptor)
                except KeyError:
                    pass
            sink.advance()
        for descriptor, events in ready:
            callback = self._callbacks.get(descriptor)
            if callback is not None:
                callback(events)
        self._choke(sum(sink.unwritten for sink in sinks))
        now_s = monotonic()
        for name, (at, action) in list(self._timers.items()):
            if at <= now_s:
                self._timers.pop(name, None)
                action()

    def _choke(self, unwritten: int) -> None:
        """Read less from the nodes while our reader is slow, so that tasks are slowed too."""
        if self._is_choked and unwritten < LOW_BYTES:
            self._is_choked = False
        elif not self._is_choked and unwritten > HIGH_BYTES:
            self._is_choked = True
        else:
            return
        for link in self._links:
            if link is not None and link.socket is not None:
                self._watch_link(link)

    def _watch(self, descriptor: int, events: int, callback: "Callable[[int], None]") -> None:
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, events)

    def _drop(self, descriptor: int) -> None:
        if self._callbacks.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _set_timer(self, name: str, delay_s: float, action: "Callable[[], None]") -> None:
        self._timers.setdefault(name, (monotonic() + delay_s, action))

    def _close(self) -> None:
        for link in self._links:
            if link is not None and link.socket is not None:
                link.socket.close()
        self._door.close()

    # Nodes --------------------------------------------------------------------------------------

    def _watch_link(self, link: Link) -> None:
        assert link.socket is not None
        events = 0 if self._is_choked and link.node >= 0 else select.POLLIN
        if link.unsent:
            events |= select.POLLOUT
        self._watch(link.socket.fileno(), events, lambda got: self._on_link(link, got))

    def _on_link(self, link: Link, events: int) -> None:
        if link.socket is None:
            return
        if events & select.POLLOUT:
            self._flush(link)
        if link.socket is None or not events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            data = link.socket.recv(256 << 10)
            frames = link.frames.feed(data)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, step_io.BadStepFrame):
            data, frames = b"", []
        for kind, task, body in frames:
            if link.node < 0:
                self._hello(link, kind, body)
            else:
                self._on_frame(link, kind, task, body)
            if link.is_done:
                return
        if not data:
            self._lost(link)

    def _hello(self, link: Link, kind: int, body: bytes) -> None:
        """Admit a connection that knows its half of the key; the place it says is its own."""
        theirs, ours = step_io.halves(self.key)
        self._door.known(link)
        try:
            fields = unpack(body) if kind == step_io.HELLO else {}
            node = fields["node_index"] if step_io.same_key(fields["key"], theirs) else -1
        except (ValueError, KeyError, TypeError):
            node = -1
        known = isinstance(node, int) and 0 <= node < len(self._links)
        if not known or self._links[node] is not None:
            link.is_done = True
            self._hang_up(link)
            return
        link.node = node
        self._links[node] = link
        self._send(link, step_io.pack(step_io.WELCOME, step_io.ALL, ours))
        for frame in self._orders:
            self._send(link, frame)
        if all(self._links[index] or index in self._left_out for index in range(len(self._links))):
            self._timers.pop("connect", None)
            self._all_connected = True
            self._orders.clear()
            self._door.close()
            self._read_stdin()

    def _on_frame(self, link: Link, kind: int, task: int, body: bytes) -> None:
        streams = self._streams
        if kind == step_io.STDOUT:
            self._output(kind, task, body, streams.out, streams.out_task)
        elif kind == step_io.STDERR:
            self._output(kind, task, body, streams.err, streams.err_task)
        elif kind == step_io.EXIT:
            numbers = step_io.numbers(body)
            if len(numbers) == 2:
                self._task_exited(task, *numbers)
        elif kind == step_io.CREDIT:
            link.credit += sum(step_io.numbers(body))
            self._read_stdin()
        elif kind == step_io.STARTED:
            self.tasks.started(link.node)
            if self._verbose:
                count = len(self.tasks.of_node[link.node])
                self.log(f"Node {self.tasks.nodes[link.node]}, {count} tasks started")
        elif kind == step_io.NOTICE:
            self._notice(body.decode("utf-8", "replace"))
        elif kind == step_io.FAILED:
            self._failed(link, body)
        elif kind == step_io.PING:
            self._send(link, step_io.pack(step_io.PONG))
        elif kind == step_io.DONE:
            link.is_done = True
            self._hang_up(link)

    def _output(self, kind: int, task: int, body: bytes, sink: Sink, only: int) -> None:
        if only >= 0 and task != only:
            return
        labels = self._streams.labels
        sink.write(labels.put(kind, task, body) if labels is not None else body)

    def _notice(self, text: str) -> None:
        if not self._we_ended_it and "***" in text and not self._was_aborted:
            self.aborted()
        self._streams.err.advance()
        say(text.rstrip("\n"))

    def aborted(self) -> None:
        """Say that others are ending this step."""
        if not self._was_aborted:
            self._was_aborted = True
            self.info(
                f"Job step aborted: Waiting up to {self._kill_wait_s + 2} seconds "
                "for job step to finish."
            )

    def _failed(self, link: Link, body: bytes) -> None:
        try:
            text = str(unpack(body)["text"])
        except (ValueError, KeyError, TypeError):
            text = "Unspecified error"
        node = self.tasks.nodes[link.node]
        self.log(f"error: task launch for {self.tasks.step_name} failed on node {node}: {text}")

    def _lost(self, link: Link) -> None:
        """A connection ended before the step did on that node."""
        node = link.node
        self._door.known(link)
        self._hang_up(link)
        if node < 0 or link.is_done:
            return
        link.is_done = True
        left = self.tasks.running_on(node)
        if not left:
            return
        self.log(f"error: Node failure on {self.tasks.nodes[node]}")
        for task in left:
            self.tasks.exited(task, 1 << 8, 0)
        self._lost_code = max(self._lost_code, 1)
        self._tell_ends()
        self.terminate("NODE FAILURE")

    def _nobody_came(self) -> None:
        self._all_connected = True
        for node, link in enumerate(self._links):
            if link is None and node not in self._left_out:
                self.log(f"error: timeout waiting for task launch on {self.tasks.nodes[node]}")
                self.leave_out(node, 1 << 8)
                self._lost_code = 1
        self.terminate("TASK LAUNCH FAILURE")

    def _hang_up(self, link: Link) -> None:
        if link.socket is not None:
            self._drop(link.socket.fileno())
            link.socket.close()
            link.socket = None

    # Sending ------------------------------------------------------------------------------------

    def _send(self, link: Link, frame: bytes) -> None:
        if link.socket is not None:
            link.unsent += frame
            self._flush(link)

    def _flush(self, link: Link) -> None:
        assert link.socket is not None
        try:
            while link.unsent:
                with memoryview(link.unsent) as view:
                    sent = link.socket.send(view[: 256 << 10])
                del link.unsent[:sent]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            # What it sent before it went is still to be read; the end shows there.
            link.unsent.clear()
        self._watch_link(link)

    def _order_all(self, frame: bytes) -> None:
        """Send to every node, to those still to come when they say hello."""
        if not self._all_connected:
            self._orders.append(frame)
        for link in self._links:
            if link is not None and not link.is_done:
                self._send(link, frame)

    def signal_tasks(self, number: int) -> None:
        """Send a signal to every task."""
        self._order_all(step_io.pack_number(step_io.SIGNAL, step_io.ALL, number))

    def terminate(self, why: str) -> None:
        """End the step: TERM now, KILL after KillWait."""
        self._we_ended_it = True
        self._order_all(step_io.pack(step_io.TERMINATE, step_io.ALL, why.encode()))

    # Ends ---------------------------------------------------------------------------------------

    def _task_exited(self, task: int, status: int, flags: int) -> None:
        if not self.tasks.exited(task, status, flags & step_io.EXIT_OUT_OF_MEMORY):
            return
        self._set_timer("tell", _FOLD_S, self._tell_ends)
        if not self._first_exit_s:
            self._first_exit_s = monotonic()
            if self._wait_s and not self.tasks.all_exited:
                self._set_timer("wait", self._wait_s, self._waited)
        if flags & step_io.EXIT_ENDS_STEP and not self._we_ended_it:
            self.terminate("OUT OF MEMORY")
        is_bad = bool(status or flags)
        if is_bad and self._kill_on_bad_exit and not self._we_ended_it:
            self._tell_ends()
            if not self.tasks.all_exited:
                self.info(f"Terminating {self.tasks.step_name}")
                self.terminate("TASK FAILURE")

    def _tell_ends(self) -> None:
        self._timers.pop("tell", None)
        for line in self.tasks.end_lines(self._verbose):
            self.log(line)

    def _waited(self) -> None:
        """--wait: the first task ended so long ago; the others are not to go on."""
        if self.tasks.all_exited:
            return
        self._tell_ends()
        self.log(f"First task exited {self._wait_s}s ago")
        for line in self.tasks.state_lines():
            self.log(line)
        self.log(f"Terminating {self.tasks.step_name}")
        self._we_ended_it = True
        self.signal_tasks(SIGKILL)

    def step_is_over(self, text: str = "") -> None:
        """The controller says that the step has ended: wait a little for the last words."""
        if text:
            self.log(text)
        self._set_timer("over", _FINISH_GRACE_S, self._give_up)

    def _give_up(self) -> None:
        for node in range(len(self._links)):
            for task in self.tasks.running_on(node):
                self.tasks.exited(task, SIGKILL, 0)
        self._is_over = True

    def output_broke(self) -> None:
        """The reader of our stdout is gone: the tasks learn this as they would in a pipe."""
        self.signal_tasks(SIGPIPE)

    # Signals ------------------------------------------------------------------------------------

    def _on_signal(self, events: int) -> None:
        for number in self._signals.take():
            if number == SIGINT:
                self._interrupt()
            elif number == SIGWINCH:
                self._window()
            elif number in (SIGTERM, SIGQUIT, SIGHUP):
                self._asked_to_end(number)
            elif number == SIGCONT:
                self.info("got SIGCONT")
                self.signal_tasks(number)
            else:
                self.signal_tasks(number)

    def _interrupt(self) -> None:
        """Ctrl-C: the first shows the state, the second goes to the tasks, the third ends."""
        now_s = monotonic()
        is_quick = now_s - self._interrupt_s <= self._abort_window_s
        self._interrupt_s = now_s
        asks_first = self._show_status and not self._quit_on_interrupt
        if asks_first and not is_quick and not self._interrupts:
            self.log("interrupt (one more within 1 sec to abort)")
            for line in self.tasks.state_lines():
                self.log(line)
            return
        self._interrupts += 1
        self._we_ended_it = True
        if self._interrupts == 1:
            self.log(f"sending Ctrl-C to {self.tasks.step_name}")
            self.signal_tasks(SIGINT)
            if self._quit_on_interrupt or not self._show_status:
                self._set_timer("force", self._abort_window_s, self._force)
        elif self._interrupts == 2:
            self._force()
        else:
            self._give_up()

    def _force(self) -> None:
        if not self.tasks.all_exited:
            self.log("forcing job termination")
            self.terminate("SIGNAL Killed")

    def _asked_to_end(self, number: int) -> None:
        """TERM, QUIT, HUP: the tasks get it; asked again, they are ended."""
        self._terms += 1
        self._we_ended_it = True
        if self._terms == 1:
            self.info("forcing job termination")
            self.signal_tasks(SIGTERM if number == SIGHUP else number)
        else:
            self.terminate("SIGNAL Terminated")

    def _window(self) -> None:
        if not self._streams.pty:
            return
        rows, columns = window_size()
        link = self._links[self.tasks.node_of[0]]
        if link is not None:
            self._send(link, step_io.pack_window(rows, columns))

    # Input --------------------------------------------------------------------------------------

    def _readers(self) -> "list[Link]":
        """Return the connections that our input goes to."""
        task = self._streams.in_task
        nodes = range(len(self._links)) if task < 0 else (self.tasks.node_of.get(task, -1),)
        links = [self._links[node] for node in nodes if node >= 0]
        return [link for link in links if link is not None and not link.is_done]

    def _read_stdin(self) -> None:
        """Read on when every node can take more."""
        if self._stdin_is_over or self._is_reading_stdin or not self._all_connected:
            return
        if all(link.credit > 0 for link in self._readers()):
            try:
                self._watch(self._streams.in_descriptor, select.POLLIN, self._on_stdin)
                self._is_reading_stdin = True
            except OSError:
                self._end_stdin()

    def _pause_stdin(self) -> None:
        if self._is_reading_stdin:
            self._is_reading_stdin = False
            self._drop(self._streams.in_descriptor)

    def _on_stdin(self, events: int) -> None:
        readers = self._readers()
        room = min((link.credit for link in readers), default=step_io.CHUNK_BYTES)
        if room <= 0:
            self._pause_stdin()
            return
        try:
            data = os.read(self._streams.in_descriptor, min(room, step_io.CHUNK_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            if problem.errno == _EIO:
                # In the background of a terminal: not ours to read now.
                self._pause_stdin()
                self._set_timer("stdin", _TTY_RETRY_S, self._read_stdin)
                return
            data = b""
        if not data:
            self._end_stdin()
            return
        task = self._streams.in_task if self._streams.in_task >= 0 else step_io.ALL
        frame = step_io.pack(step_io.STDIN, task, data)
        for link in readers:
            link.credit -= len(data)
            self._send(link, frame)
        if any(link.credit <= 0 for link in readers):
            self._pause_stdin()

    def _end_stdin(self) -> None:
        self._pause_stdin()
        self._stdin_is_over = True
        task = self._streams.in_task if self._streams.in_task >= 0 else step_io.ALL
        for link in self._readers():
            self._send(link, step_io.pack(step_io.STDIN, task))
