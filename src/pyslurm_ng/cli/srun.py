"""srun: run a program as a step, inside an allocation or in a new one."""

import os
import sys

from pyslurm_ng.base.numbers import (
    INFINITE,
    JOB_NODE_FAIL,
    REQ_EXCLUSIVE,
    SECOND_US,
    STEP_EXACT,
    STEP_MEM_ZERO,
)
from pyslurm_ng.cli.command import connect, read_conf, say
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.signals import Interrupted, Signals
from pyslurm_ng.cli.step import mpi_kinds, step_request
from pyslurm_ng.cli.step.preparation import NotPrepared, Preparation, run_beside
from pyslurm_ng.cli.step.terminal import RawTerminal
from pyslurm_ng.cli.step.whole_step import of_component
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.binding_options import without_step_masks
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, SCRIPT, HelpRequested
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.cli.submit.x11_words import NO_X11, X11_VARIABLE, allows_x11
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.step.client import StepClient
    from pyslurm_ng.cli.step.het_exchange import ComponentExchange
    from pyslurm_ng.cli.step.het_steps import Component, Meeting
    from pyslurm_ng.cli.step.mpi_hub import NodeExchange
    from pyslurm_ng.cli.step.streams import StepIo
    from pyslurm_ng.cli.step.tasks import StepTasks
    from pyslurm_ng.cli.step.whole_step import WholeStep
    from pyslurm_ng.cli.step.x11 import X11Forward
    from pyslurm_ng.cli.submit.allocation import Allocation
    from pyslurm_ng.wire.client import Client

CONF_KEYS = (
    "JobFileAppend", "KillOnBadExit", "MpiDefault", "WaitTime", "SrunPortRange", "SrunProlog",
    "SrunEpilog", "SlurmdPidFile", "PrologFlags", *submission.CONF_KEYS,
)  # fmt: skip
_EXIT_ERROR = "SLURM_EXIT_ERROR"


class Failed(Exception):
    """srun cannot go on; its lines were printed. `code` is the exit code."""

    def __init__(self, code: int = -1) -> None:
        super().__init__(code)
        self.code = _set_code(_EXIT_ERROR) if code < 0 else code


def _set_code(variable: str) -> int:
    """Return the exit code that the user wants for a failure of srun itself, by default 1."""
    value = os.environ.get(variable, "")
    return int(value) & 0xFF if value.isdecimal() else 1


def main(argv: "list[str]") -> int:
    """Run; return the exit code."""
    options = Options("srun")
    try:
        if ":" in argv or any(word.startswith(("--het-g", "--pack-g")) for word in argv):
            return _run_components(argv)
        return _run(options, argv)
    except OptionError as problem:
        code = _option_failure(options, problem)
        return _set_code(_EXIT_ERROR) if _EXIT_ERROR in os.environ else code
    except HelpRequested as problem:
        return submission.show_help(problem)
    except Failed as problem:
        return problem.code


def _run_components(argv: "list[str]") -> int:
    """Run one step in each of several components, or in one named component."""
    from pyslurm_ng.cli.step import het_steps

    argv = het_steps.with_commands(argv, Options("srun").split_words)
    if "SLURM_HET_SIZE" not in os.environ:
        argv = _from_outside(argv)
    steps = het_steps.components(
        argv, lambda words: Options("srun").split_words(words)[0], os.environ
    )
    if len(steps) > 1:
        conf = read_conf("srun", "SchedulerParameters")
        het_steps.check_allowed(conf.get("SchedulerParameters", ""))
    if len(steps) > 1 and not os.environ.get("SLURM_JOB_ID"):
        return _components_alone(argv)
    if len(steps) == 1:
        het_steps.become(steps[0].group)
        return _run(Options("srun"), steps[0].words)
    return het_steps.run(steps, lambda step, meeting: _run_component(step, meeting, argv))


def _from_outside(argv: "list[str]") -> "list[str]":
    """Have the variables of the heterogeneous job that --jobid names; return the other words."""
    from pyslurm_ng.cli.step import het_steps

    pairs, _ = Options("srun").split_words(het_steps.parts(argv)[0])
    job = next((value for name, value in reversed(pairs) if name == "jobid"), None)
    if not job:
        return argv
    try:
        variables = het_steps.variables_of(connect(read_conf("srun")), job)
    except SlurmError as problem:
        say(f"srun: error: Unable to confirm allocation for job {job}: {problem.text}")
        raise Failed from None
    if not variables:
        return argv
    os.environ.update(variables)
    return het_steps.without_job(argv)


def _components_alone(argv: "list[str]") -> int:
    """Get an allocation of several components, run a step in each, give it back."""
    from pyslurm_ng.cli.step import het_steps
    from pyslurm_ng.cli.submit.allocation import Allocation, Revoked
    from pyslurm_ng.cli.submit.het_options import further_components

    options = Options("srun")
    split = [options.split_words(words) for words in het_steps.parts(argv)]
    environment = dict(os.environ)
    conf = submission.begin(options, split[0][1], read_conf, CONF_KEYS)
    options.apply_environment(environment)
    options.apply_all(split[0][0], COMMAND_LINE)
    further = further_components(options, [], [pairs for pairs, _ in split[1:]], environment)
    conf = conf or read_conf("srun", *CONF_KEYS)
    is_test = "test-only" in options.settings
    for component, (_, operands) in zip((options, *further), split, strict=True):
        component.finish()
        if not operands and is_test:
            operands = ["test"]
        if not operands:
            say("srun: fatal: No command given to execute.")
            return 1
        submission.check_configured(component, conf)
        submission.describe_origin(component, argv)
        if not component.request.get("name"):
            component.request["name"] = operands[0].rpartition("/")[2]
        component.request["command"] = operands[0]
    submission.become(options)
    conf = submission.choose_cluster(options, conf)
    if is_test:
        client = connect(conf)
        return max(_estimate(client, component) for component in (options, *further))
    allocation = Allocation(connect(conf), options, Signals(), further)
    try:
        allocation.ask()
    except SlurmError as problem:
        submission.refusal("srun", problem, "Unable to allocate resources")
        raise Failed from None
    except Revoked:
        raise Failed from None
    for name in list(os.environ):
        if submission.is_of_outer_job(name):
            del os.environ[name]
    os.environ.update(allocation.variables() | submission.working_cluster(conf))
    code = 1
    try:
        steps = het_steps.components(
            argv, lambda words: Options("srun").split_words(words)[0], os.environ
        )
        code = het_steps.run(steps, lambda step, meeting: _run_component(step, meeting, argv))
    finally:
        allocation.give_back(code << 8 if code < 128 else code - 128)
    return code


def _run_component(step: "Component", meeting: "Meeting", argv: "list[str]") -> int:
    """Run one of several components; `argv` is the whole line."""
    options = Options("srun")
    try:
        options.apply_all(step.inherited, SCRIPT)
        return _run(options, step.words, meeting, argv)
    except OptionError as problem:
        return _option_failure(options, problem)
    except HelpRequested as problem:
        return submission.show_help(problem)
    except Failed as problem:
        return problem.code


def _option_failure(options: Options, problem: OptionError) -> int:
    """Print an error of several levels: lines that begin with `fatal: ` keep theirs."""
    if "\nfatal: " in problem.text:
        for line in problem.text.split("\n"):
            say(f"srun: {line}" if line.startswith("fatal: ") else f"srun: error: {line}")
        return 1
    return submission.option_failure(options, problem)


def _run(
    options: Options,
    argv: "list[str]",
    meeting: "Meeting | None" = None,
    whole_line: "list[str] | None" = None,
) -> int:
    pairs, operands = options.split_words(argv)
    if submission.announce(options, pairs):
        return 0
    if ("mpi", "list") in pairs:
        sys.stdout.write(mpi_kinds.listing())
        return 0
    conf = submission.begin(options, operands, read_conf, CONF_KEYS)
    variables = step_request.with_own_gres(step_request.with_own_cpus(dict(os.environ)))
    options.apply_environment(without_step_masks(variables))
    options.apply_all(pairs, COMMAND_LINE)
    if "multi-prog" in options.settings and operands:
        from pyslurm_ng.cli.step.multi_prog import check_programs

        check_programs(options, operands[0])
    quiet = "quiet" in options.settings
    for line in options.finish():
        if not quiet:
            say(f"srun: {line}")
    step_request.check_settings(options)
    submission.say_options(options)
    if not operands and "test-only" not in options.settings:
        say("srun: fatal: No command given to execute.")
        return 1
    conf = conf or read_conf("srun", *CONF_KEYS)
    job_id = options.settings.get("jobid", "")
    if job_id and job_id == os.environ.get("SLURM_JOB_ID"):
        if "SLURM_WORKING_CLUSTER" in os.environ:
            from pyslurm_ng.cli.clusters import of_allocation

            conf = of_allocation("srun", conf)
    else:
        conf = submission.choose_cluster(options, conf)
    mpi = mpi_kinds.chosen(options, conf.get("MpiDefault", ""))
    if "async" in options.settings:
        from pyslurm_ng.cli.step.async_step import check_async

        check_async(options, mpi)
    submission.check_configured(options, conf)
    if options.verbose > 1:
        limits = submission.limits(options.settings.get("propagate", ""), conf)
        submission.say_propagated(options, limits)
    client = connect(conf)
    if "test-only" in options.settings:
        return _test_only(client, options, argv)
    work = _Srun(options, argv if whole_line is None else whole_line, operands, conf, client)
    work.meeting, work.mpi = meeting, mpi
    return submission.attended(options, lambda: work.inside(job_id) if job_id else work.alone())


def _forward_of(options: Options, conf: "dict[str, str]") -> "X11Forward | None":
    """Return what forwards X11; a step within salloc --x11 does so, too."""
    nodes = options.settings.get("x11") or os.environ.get(X11_VARIABLE, "")
    if not nodes:
        return None
    from pyslurm_ng.cli.step.x11 import NoX11, X11Forward, XServer

    if not allows_x11(conf):
        say(f"srun: error: {NO_X11}")
        raise Failed
    try:
        return X11Forward(XServer(os.environ), nodes)
    except NoX11 as problem:
        say(f"srun: error: {problem}")
        raise Failed from None


def _test_only(client: "Client", options: Options, argv: "list[str]") -> int:
    submission.describe_origin(options, argv)
    options.request.setdefault("name", "test")
    job_id = options.settings.get("jobid", "")
    if not job_id or job_id == os.environ.get("SLURM_JOB_ID"):
        return _estimate(client, options)
    from pyslurm_ng.cli.step.job_names import job_named

    return _estimate(client, options, job_named(client, job_id)[0])


def _estimate(client: "Client", options: Options, job_id: int = 0) -> int:
    """Print when and where a job, or one component of it, would start; no job is made.

    Args:
        job_id: of a job that waits already, which is asked about instead.
    """
    try:
        answer = client.call("TestJob", {"request": options.request, "job_id": job_id})
    except SlurmError as problem:
        return submission.refusal("srun", problem, "allocation failure", is_plain=True)
    if "quiet" in options.settings:
        return 0
    from pyslurm_ng.base.dates import format_date

    when = format_date(answer["start_us"] // SECOND_US)
    say(
        f"srun: Job {answer['job_id']} to start at {when} using {answer['cpus']} processors "
        f"on nodes {answer['nodes']} in partition {answer['partition']}"
    )
    return 0


class _Srun:
    """One run of srun."""

    def __init__(
        self,
        options: Options,
        argv: "list[str]",
        operands: "list[str]",
        conf: "dict[str, str]",
        client: "Client",
    ) -> None:
        self._options = options
        self._argv = argv
        self._operands = operands
        self._conf = conf
        self._client = client
        ignored = options.settings.get("ignore-signals", "")
        self._signals = Signals(frozenset(int(word) for word in ignored.split(",") if word))
        self._quiet = "quiet" in options.settings
        self._allocation: Allocation | None = None
        self._status = 0
        self.meeting: Meeting | None = None  # of the components of one srun
        self.mpi = ""  # the kind; "" where none was chosen
        self._whole: WholeStep | None = None  # if other components have a part of it
        self._x11 = _forward_of(options, conf)
        self._step_client = client  # the controller, or the job's step manager

    def _info(self, text: str) -> None:
        if not self._quiet:
            say(f"srun: {text}")

    # Where --------------------------------------------------------------------------------------

    def inside(self, job_text: str) -> int:
        """Run a step of a job that exists."""
        from pyslurm_ng.cli.step.job_names import job_named

        job_id, task = job_named(self._client, job_text)
        fields = step_request.step_fields(self._options, self._argv, self._operands[0])
        fields["job_id"] = job_id
        if task:
            fields["array_task_id"] = int(task)
        if "async" in self._options.settings:
            from pyslurm_ng.cli.step.async_step import queue_step

            return queue_step(self._options, self._conf, self._client, fields, self._operands)
        return self._step(fields)

    def alone(self) -> int:
        """Get an allocation, run one step in it, give it back."""
        from pyslurm_ng.cli.submit.allocation import Allocation, NotAtOnce, Revoked

        options, request = self._options, self._options.request
        submission.describe_origin(options, self._argv)
        if not request.get("name"):
            request["name"] = self._operands[0].rpartition("/")[2]
        request["command"] = self._operands[0]
        submission.become(options)
        allocation = self._allocation = Allocation(self._client, options, self._signals)
        try:
            allocation.ask()
        except SlurmError as problem:
            submission.refusal("srun", problem, "Unable to allocate resources")
            is_busy = isinstance(problem, NotAtOnce) and problem.is_busy
            raise Failed(_set_code("SLURM_EXIT_IMMEDIATE" if is_busy else _EXIT_ERROR)) from None
        except Revoked:
            raise Failed from None
        granted = allocation.granted
        if options.verbose:
            self._info(f"Nodes {granted['nodes']} are ready for job")
        fields = step_request.step_fields(options, self._argv, self._operands[0])
        fields["job_id"] = allocation.job_id
        self._whole_allocation(fields, granted)
        code = 1
        try:
            code = self._step(fields)
        finally:
            allocation.give_back(self._status or (code << 8 if code < 128 else code - 128))
        return code

    def _whole_allocation(self, fields: "dict[str, Any]", granted: "dict[str, Any]") -> None:
        """The only step of an allocation that srun made has all of it.

        On whole nodes -c without -n means as many tasks as have their CPUs, and tasks that are
        counted have only theirs: --exclusive implies --exact, as in Slurm 22.05.
        """
        options = self._options
        for name in ("exclude", "gpus", "gpus_per_node", "gpus_per_task", "gres", "node_list",
                     "mem_per_node_mib", "mem_per_cpu_mib", "no_wait"):  # fmt: skip
            fields.pop(name, None)
        if not fields.get("task_nodes"):
            fields["nodes_min"] = fields["nodes_max"] = granted["node_count"]
            if not ("cpus_per_task" in fields and options.has_flag(REQ_EXCLUSIVE)):
                fields.setdefault("ntasks", granted["ntasks"])
        is_exact = options.has_flag(REQ_EXCLUSIVE) and "ntasks" in options.given
        fields["flags"] &= ~(STEP_MEM_ZERO if is_exact else STEP_EXACT | STEP_MEM_ZERO)
        fields["time_limit_min"] = INFINITE
        if options.request.get("gpus_per_task"):
            fields["gpus_per_task"] = options.request["gpus_per_task"]

    # The step -----------------------------------------------------------------------------------

    def _step(self, fields: "dict[str, Any]") -> int:
        from pyslurm_ng.cli.step.tasks import StepTasks

        options = self._options
        granted = self._created(fields)
        if options.filters is not None:
            options.filters.post_submit(granted["job_id"], granted["step_id"])
        name = f"StepId={granted['job_id']}.{granted['step_id']}"
        tasks = StepTasks(name, granted["nodes"], granted["tasks"])
        if self.meeting is not None:
            self._whole = self.meeting.whole(of_component(granted, os.environ))
            if self._whole is None:
                self._never_launched(granted, list(range(len(granted["nodes"]))))
                raise Failed
            tasks.first_rank = self._whole.first_rank
        ranks = (self._whole.first_rank, self._whole.tasks) if self._whole else (0, 0)
        try:
            ready = Preparation(options, self._conf, granted, self._signals).run(
                self._operands, tasks.count, ranks, self._variables(granted)
            )
            client = self._client_of(tasks, ready.streams, granted)
        except NotPrepared as problem:
            say(f"srun: {problem}")
            self._never_launched(granted, list(range(len(granted["nodes"]))))
            raise Failed from None
        if self._x11 is not None:
            client.forward_x11(self._x11)
        self._launch(client, granted, ready.programs, ready.fields)
        self._watch_controller(client)
        terminal = RawTerminal() if ready.streams.pty else None
        try:
            code = client.run()
        finally:
            if terminal is not None:
                terminal.restore()
        self._status = tasks.worst_status
        status = self._epilog(granted)
        if status:
            say(f"srun: error: srun epilog failed status={status}")
        return code

    def _client_of(
        self, tasks: "StepTasks", streams: "StepIo", granted: "dict[str, Any]"
    ) -> "StepClient":
        from pyslurm_ng.cli.step.client import StepClient
        from pyslurm_ng.cli.step.link import port_range

        options = self._options
        try:
            return StepClient(
                tasks,
                streams,
                self._signals,
                verbose=options.verbose,
                quiet=self._quiet,
                kill_on_bad_exit=step_request.kills_on_bad_exit(options, self._conf),
                wait_s=int(options.settings.get("wait") or self._conf.get("WaitTime", "0") or 0),
                kill_wait_s=granted["kill_wait_s"],
                show_status="disable-status" not in options.settings,
                quit_on_interrupt="quit-on-interrupt" in options.settings,
                ports=port_range(self._conf),
                exchange=self._exchange(tasks),
            )
        except OSError as problem:
            raise NotPrepared(f"error: {problem.strerror}") from None

    def _exchange(self, tasks: "StepTasks") -> "ComponentExchange | NodeExchange | None":
        """Return what passes on the messages of MPI libraries, and to other components."""
        if self.meeting is not None and self._whole is not None:
            return self.meeting.exchange(self._whole.first_node)
        if self.mpi in ("", "none"):
            return None
        from pyslurm_ng.cli.step.mpi_hub import MpiHub, NodeExchange

        return NodeExchange(MpiHub(len(tasks.nodes)))

    def _variables(self, granted: "dict[str, Any]") -> "dict[str, str]":
        """Return the variables of --prolog and --epilog."""
        from pyslurm_ng.cli.step.launch import step_variables

        of_job = self._allocation.variables() if self._allocation is not None else {}
        return {**os.environ, **of_job, **step_variables(granted)}

    def _epilog(self, granted: "dict[str, Any]") -> int:
        """Run --epilog; a signal ends it."""
        try:
            with self._signals.breaking():
                variables = self._variables(granted)
                return run_beside(self._options, self._conf, "epilog", self._operands, variables)
        except Interrupted as problem:
            return problem.number

    def _created(self, fields: "dict[str, Any]") -> "dict[str, Any]":
        from pyslurm_ng.cli.step.creation import NoStep, StepCreation
        from pyslurm_ng.cli.step.step_manager import own_manager

        take = self._allocation.take if self._allocation is not None else None
        first = own_manager(self._conf, fields["job_id"]) or self._client
        creation = StepCreation(self._conf, first, self._signals, self._info, take)
        try:
            granted = creation.run(fields)
        except NoStep:
            raise Failed from None
        self._step_client = creation.client
        return granted

    # Launching ----------------------------------------------------------------------------------

    def _launch(
        self,
        client: "StepClient",
        granted: "dict[str, Any]",
        programs: "list[dict[str, Any]]",
        std: "dict[str, Any]",
    ) -> None:
        from pyslurm_ng.cli.step.launch import Launch, launch_fields, launching_lines

        tasks = client.tasks
        if self._options.verbose:
            for line in launching_lines(self._options, granted, tasks.step_name):
                self._info(line)
        fields = launch_fields(self._options, self._conf, granted, programs, std)
        fields["mpi"] = self.mpi
        if self.mpi.startswith("pmix"):
            fields["mpi_secret"] = self.meeting.secret if self.meeting else os.urandom(16)
        if self._x11 is not None:
            fields["x11"] = (self._x11.nodes, self._x11.cookie)
        if self._whole is not None:
            fields |= self._whole.launch_fields()
        limit_s = float(self._options.settings.get("msg-timeout") or 60)
        failed = Launch(self._conf, granted, fields, limit_s).run(
            client.links.port, client.links.key
        )
        if not failed:
            return
        for index, text in failed.items():
            say(
                f"srun: error: Task launch for {tasks.step_name} failed on node "
                f"{tasks.nodes[index]}: {text}"
            )
            client.leave_out(index)
        text = next(iter(failed.values()))
        say(f"srun: error: Application launch failed: {text}")
        self._never_launched(granted, list(failed))
        if len(failed) == len(tasks.nodes):
            raise Failed
        self._info("Job step aborted: Waiting up to "
                   f"{granted['kill_wait_s'] + 2} seconds for job step to finish.")  # fmt: skip
        client.orders.terminate("TASK LAUNCH FAILURE")

    def _never_launched(self, granted: "dict[str, Any]", indexes: "list[int]") -> None:
        """Tell the controller that nodes know nothing of the step and will report nothing."""
        fields = {
            "job_id": granted["job_id"],
            "step_id": granted["step_id"],
            "nodes": [granted["nodes"][index] for index in indexes],
            "exit_code": 1 << 8,
        }
        try:
            self._step_client.change("CompleteStep", fields)
        except SlurmError as problem:
            say(f"srun: error: {problem.text}")

    # News ---------------------------------------------------------------------------------------

    def _watch_controller(self, client: "StepClient") -> None:
        """Take the messages of those that know of step and allocation while the step runs."""
        self._watch(client, self._step_client)
        if self._step_client is not self._client:
            self._watch(client, self._client)

    def _watch(self, client: "StepClient", source: "Client") -> None:
        descriptor = source.fileno()
        if descriptor < 0:
            return

        def news() -> None:
            try:
                _, reply, is_last = source.receive(60.0)
            except SlurmError:
                # The step does not need the controller; its end is reported by the nodes.
                client.forget(descriptor)
                return
            if "job_state" in reply:
                failed = reply["state"] == JOB_NODE_FAIL or reply["job_state"] == JOB_NODE_FAIL
                client.step_is_over("error: Node failure" if failed else "")
            elif self._allocation is not None:
                self._allocation.take(reply, is_last)
                if self._allocation.over is not None:
                    client.aborted()

        client.also_watch(descriptor, news)
