"""Makes the parts of a running controller and connects them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.accounting_link import AccountingLink
from pyslurm_ng.ctld.association_listing import AssociationListing
from pyslurm_ng.ctld.burst_buffers.buffers import BurstBuffers
from pyslurm_ng.ctld.clock import Clock, wall_us
from pyslurm_ng.ctld.configuration import Configuration
from pyslurm_ng.ctld.failures import Failures
from pyslurm_ng.ctld.followers.checkpointer import Checkpointer
from pyslurm_ng.ctld.followers.completion_log import KIND as COMPLETION, CompletionLog
from pyslurm_ng.ctld.followers.debug_log import DebugLog
from pyslurm_ng.ctld.followers.dependency_index import DependencyIndex
from pyslurm_ng.ctld.followers.event_log import EventLog
from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.followers.het_ends import HetFollower
from pyslurm_ng.ctld.followers.limit_index import LimitIndex
from pyslurm_ng.ctld.followers.recent_submissions import RecentSubmissions
from pyslurm_ng.ctld.followers.request_log import RequestLog
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.history import History
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.nodes.file_credentials import FileCredentials
from pyslurm_ng.ctld.nodes.node_service import NodeService
from pyslurm_ng.ctld.nodes.run_times import RunTimes
from pyslurm_ng.ctld.nodes.sender import Sender
from pyslurm_ng.ctld.open_calls import event_feed
from pyslurm_ng.ctld.open_calls.allocations import Allocations
from pyslurm_ng.ctld.open_calls.job_watch import JobWatch
from pyslurm_ng.ctld.open_calls.notices import Notices
from pyslurm_ng.ctld.open_calls.output_calls import OutputCalls
from pyslurm_ng.ctld.open_calls.step_calls import StepCalls
from pyslurm_ng.ctld.programs.completion_sender import CompletionSender
from pyslurm_ng.ctld.programs.fences import Fences
from pyslurm_ng.ctld.programs.job_programs import JobPrograms
from pyslurm_ng.ctld.programs.mailer import Mailer
from pyslurm_ng.ctld.programs.power_programs import PowerPrograms
from pyslurm_ng.ctld.programs.reservation_programs import ReservationPrograms
from pyslurm_ng.ctld.programs.runner import HookRunner, Programs
from pyslurm_ng.ctld.programs.triggers import Triggers
from pyslurm_ng.ctld.programs.user_programs import UserPrograms
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.ctld.rules.submission.submit import allocate_job
from pyslurm_ng.ctld.scheduling.explainer import Explainer
from pyslurm_ng.ctld.scheduling.loop_edges import LoopEdges
from pyslurm_ng.ctld.scheduling.qos_lists import QosLists
from pyslurm_ng.ctld.scheduling.questions import Questions
from pyslurm_ng.ctld.scheduling.scheduler import Scheduler
from pyslurm_ng.ctld.scheduling.start_estimates import StartEstimates
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.ctld.site_policy.gate import Gate
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.start import Beginning, CannotStart, open_scheduling_log
from pyslurm_ng.ctld.timekeeper import Timekeeper, TimeMark
from pyslurm_ng.ctld.tokens import Tokens
from pyslurm_ng.ctld.users.identities import Identities
from pyslurm_ng.ctld.users.reservation_groups import ReservationGroups
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.sched.backfill.planner import plan
from pyslurm_ng.wire.endpoint import Endpoint
from pyslurm_ng.wire.rate_limit import RateLimit, rate_limit_words

T = TypeVar("T")

_PASS_INTERVAL_S = 0.01
_LOOKUP_THREADS = 4


class ControllerParts:
    """All parts of one controller; made on its loop, which must run.

    Raises:
        CannotStart: the journal takes no new segment.
    """

    def __init__(
        self,
        beginning: Beginning,
        configuration: Configuration,
        log: DaemonLog,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.configuration = configuration
        self.faults = Faults(log)
        self.failures = Failures(log)
        self._time_mark = TimeMark(beginning.layout.state / "time")
        self.clock = Clock(max(beginning.cluster.time_us, self._time_mark.read()) + 1)
        self.run_times = RunTimes(beginning.cluster, self.clock.gap_us)
        self.soft = Soft(
            started_us=self.clock.now_us(),
            reset_us=self.clock.now_us(),
            faults=self.faults.counts,
            spared=partial(self.faults.note, "record"),
        )
        self._beginning = beginning
        self._log = log
        words = rate_limit_words(configuration.conf.slurmctld_parameters)
        self.rate_limit = RateLimit(words, time.monotonic, log.info)
        self.soft.limited = self.rate_limit.refused
        self._lookups = ThreadPoolExecutor(_LOOKUP_THREADS, "lookup")
        self.scheduling_log = open_scheduling_log(configuration)
        self._build_writer()
        self._build_scheduler()
        self._build_service()
        self._build_followers()
        self._build_nodes()
        self._build_steps()
        self.accounting = AccountingLink(
            beginning, self.writer, self.history, self.usage, self.clock.now_us, log, self.faults
        )
        self.checkpointer = _checkpointer(self, beginning, log)

    def adopt(self, fresh: Configuration) -> None:
        """Use another configuration in every part from now on."""
        self.show(fresh)
        conf = fresh.conf
        self.gate.adopt(conf)
        self.buffers.adopt(conf)
        self.nodes.conf = self.mailer.conf = self.completions.conf = conf
        self.job_programs.conf = self.reservation_programs.conf = self.fences.conf = conf
        self._allocations.inactive_limit_s = conf.inactive_limit
        self.scheduler.adopt(fresh.policy, preparation(conf))
        self.usage.adopt(conf)
        self.fair_share.adopt(conf)
        self.accounting.adopt(conf)
        self.rate_limit.words = rate_limit_words(conf.slurmctld_parameters)
        keep_us = conf.group_update_time * SECOND_US
        self.identities.keep_us = self.reservation_groups.keep_us = keep_us
        self.identities.forget()
        self.reservation_groups.forget()

    def show(self, configuration: Configuration) -> None:
        """Let `scontrol show config` and rules see a changed configuration."""
        self.configuration = self.service.configuration = configuration
        self.debug_log.adopt(configuration.conf.debug_flags)

    def close(self) -> None:
        """Let go of threads, processes, sockets to nodes and the link to accounting."""
        self.gate.close()
        self.buffers.close()
        self.accounting.close()
        self.endpoint.close()
        self._edges.close()
        self._lookups.shutdown(wait=False, cancel_futures=True)

    # Building, in the order in which parts hear of events -----------------------------------------

    def _build_writer(self) -> None:
        begun = self._beginning
        recovery = begun.recovery
        try:
            self.journal = JournalWriter(
                begun.layout.journal,
                recovery.journal_id,
                recovery.position._replace(epoch=recovery.next_epoch),
                first_sequence=recovery.next_sequence,
                on_durable=self._durable_in_thread,
                on_fatal=self.failures.journal_failed,
                reserve=Reserve(begun.layout.reserve),
            )
        except OSError as error:
            raise CannotStart(f"cannot begin a journal segment: {error}") from None
        self.writer = Writer(
            begun.cluster,
            self.journal,
            call_soon=self.loop.call_soon,
            on_bug=self.failures.bug_in_core,
            spared=partial(self.faults.note, "observer"),
            call_later=self.loop.call_later,
        )
        begun.scripts.when_durable = self.writer.when_durable
        self.timekeeper = Timekeeper(
            self.clock, self.writer, self.run_times, self._time_mark, self._log
        )

    def _build_scheduler(self) -> None:
        conf = self.configuration.conf
        self._edges = LoopEdges(self.clock)
        cluster = self.writer.cluster
        self.usage = UsageIndex(cluster, conf)
        self.scheduler = Scheduler(
            self.writer,
            self.soft,
            self._edges,
            plan=plan,
            policy=self.configuration.policy,
            prepare=preparation(conf),
            faults=self.faults,
            least_interval_s=_PASS_INTERVAL_S,
            usage=self.usage,
            from_thread=self.loop.call_soon_threadsafe,
        )
        self.fair_share = FairShare(cluster, self.soft, self.usage, conf, self.scheduler.due)
        QosLists(self.writer, self.scheduler, lambda: self.configuration.conf, self.faults)

    def _build_service(self) -> None:
        """Put together what answers commands."""
        conf = self.configuration.conf
        self.identities = Identities(
            self._look_up, self.configuration.service_uid, conf.group_update_time * SECOND_US
        )
        self.service = Service(
            self.writer,
            self.soft,
            configuration=self.configuration,
            clock=self.clock,
            identities=self.identities,
            scripts=self._beginning.scripts,
            faults=self.faults,
            host=self._beginning.host,
            slices=Slices(self.loop.call_soon),
        )
        service = self.service
        handlers = service.context, service.resume, service.fault
        self.gate = Gate(self.writer, self.soft, conf, self.loop, self._log, *handlers)
        service.gate = self.gate
        listing = AssociationListing(self.writer, self.usage, self.fair_share, service)
        service.more["ShowAssociations"] = listing.handle
        look = service.context, self._edges.answer
        questions = Questions(self.writer, self.soft, self.scheduler, *look, self.faults)
        explainer = Explainer(questions, self._beginning.layout.journal, self.fair_share.forecast)
        self.service.more["ExplainJob"] = explainer.handle
        self.service.more["TestJob"] = StartEstimates(questions).handle

    def _build_followers(self) -> None:
        """Put together what only looks at events, and have all views hear of them."""
        writer, cluster, conf = self.writer, self.writer.cluster, self.configuration.conf
        writer.observe(partial(self.soft.records.note, cluster))
        self.service.submissions = RecentSubmissions(cluster, lambda: self.configuration.conf)
        writer.observe(self.service.submissions.applied)
        self.limits = LimitIndex(cluster)
        self.dependencies = DependencyIndex(cluster)
        writer.observe(self.usage.applied, is_brittle=True)
        writer.observe(self.fair_share.applied)
        writer.observe(self.limits.applied)
        writer.observe(self.dependencies.applied)
        writer.observe(self.soft.applied)
        log = EventLog(cluster, self._log, self.scheduling_log, self._edges.call_soon)
        writer.observe(log.applied, is_brittle=True)
        writer.decided = RequestLog(self._log, log.say).decided
        self.debug_log = DebugLog(cluster, self._log, self.soft, conf.debug_flags)
        writer.observe(self.debug_log.applied, is_brittle=True)
        writer.observe(self._beginning.scripts.applied, is_brittle=True)
        writer.observe(self.scheduler.applied)
        self._watch = JobWatch(cluster)
        writer.observe(self._watch.applied, is_brittle=True)
        het = HetFollower(
            writer,
            self._edges.call_soon,
            self.clock.now_us,
            lambda: self.configuration.conf,
        )
        writer.observe(het.applied, is_brittle=True)
        het.begin()
        note = self.faults.note
        self.programs = Programs(note)
        durable, told = writer.when_durable, partial(note, "mail")
        self.mailer = Mailer(cluster, conf, self.programs, durable, self.clock.now_us(), told)
        writer.observe(self.mailer.applied, is_brittle=True)
        untold = partial(note, COMPLETION)
        sender = CompletionSender(self._log, partial(self.loop.call_soon_threadsafe, untold))
        self.completions = CompletionLog(cluster, conf, untold, durable, self.programs, sender)
        writer.observe(self.completions.applied, is_brittle=True)
        self.reservation_programs = ReservationPrograms(cluster, conf, self.programs, durable)
        writer.observe(self.reservation_programs.applied, is_brittle=True)
        power = PowerPrograms(cluster, lambda: self.configuration.conf, durable, self._log)
        writer.observe(power.applied, is_brittle=True)
        self.user_programs = UserPrograms(note, self._look_up)
        self.triggers = Triggers(writer, self.user_programs, self._edges, conf.path)
        writer.observe(self.triggers.applied, is_brittle=True)
        keep_us = conf.group_update_time * SECOND_US
        self.reservation_groups = ReservationGroups(self._look_up, writer.record, keep_us)

    def _build_nodes(self) -> None:
        """Put together what talks to node daemons."""
        log, identity = self._log, self._beginning.identity
        self.endpoint = Endpoint(
            identity,
            audience="slurmctld",
            on_message=lambda message, peer, answer: self.nodes.handle(message, peer, answer),
            on_refused=lambda cause, text, peer: self.nodes.refused(cause, text, peer),
        )
        self._credentials = Credentials(identity.signer, wall_us)
        self.sender = Sender(
            self.writer,
            self.endpoint,
            credentials=self._credentials,
            scripts=self._beginning.scripts,
            now_us=self.clock.now_us,
            call_soon=self.loop.call_soon,
            faults=self.faults,
        )
        self.writer.observe(self.sender.applied, is_brittle=True)
        self.history = History(
            self.writer, self.clock.now_us, self._beginning.host, log, self.faults
        )
        self.nodes = NodeService(
            self.writer,
            self.soft,
            self.sender,
            identity=identity,
            conf=self.configuration.conf,
            clock=self.clock,
            run_times=self.run_times,
            log=log,
            faults=self.faults,
            history=self.history,
        )

    def _build_steps(self) -> None:
        """Put together what answers srun and salloc as long as they run."""
        service = self.service
        self._allocations = allocations = Allocations(
            self.writer,
            self._watch,
            self._edges,
            lambda call, caller, answer: service.change(
                call, allocate_job, service.context(caller), answer
            ),
        )
        allocations.inactive_limit_s = self.configuration.conf.inactive_limit
        self.steps = StepCalls(
            self.writer, self._credentials, self._edges, service.context, service.slices
        )
        self.writer.observe(self.steps.applied, is_brittle=True)
        service.more["AllocateJob"] = allocations.handle
        service.more["CreateStep"] = self.steps.handle
        files = FileCredentials(self.writer, self._credentials)
        service.more["AskFileCredential"] = files.handle
        common = self.writer, self.configuration.conf, self._beginning, service
        note_error = partial(self.triggers.note, "burst_buffer")
        self.buffers = BurstBuffers(*common, self.clock, self._log, note_error)
        self.hooks = HookRunner()
        self.job_programs = JobPrograms(
            self.writer,
            self.configuration.conf,
            self.hooks,
            now_us=self.clock.now_us,
            log=self._log,
            notify=allocations.notify,
            buffers=self.buffers.jobs,
        )
        self.writer.observe(self.job_programs.applied, is_brittle=True)
        conf, now_us = self.configuration.conf, self.clock.now_us
        self.fences = Fences(self.writer, self.soft, conf, self.hooks, now_us=now_us, log=self._log)
        service.more["CreateToken"] = Tokens(self._beginning.identity.tokens).handle
        service.more["NotifyJob"] = Notices(self.writer, allocations, self.sender).handle
        output = OutputCalls(self.writer, self._credentials, self.endpoint)
        service.more["ReadOutput"] = output.handle
        in_force = lambda: self.configuration.conf  # noqa: E731
        event_feed.connect(self.writer, service.more, in_force, self._edges)

    # What parts ask of the loop -------------------------------------------------------------------

    def _durable_in_thread(self, sequence: int) -> None:
        try:
            self.loop.call_soon_threadsafe(self.writer.on_durable, sequence)
        except RuntimeError:
            return  # the loop has ended; nothing waits

    def _look_up(self, work: Callable[[], T], done: Callable[[T], None], /) -> None:
        future = self.loop.run_in_executor(self._lookups, work)
        future.add_done_callback(lambda ended: done(ended.result()))


def _checkpointer(parts: ControllerParts, begun: Beginning, log: DaemonLog) -> Checkpointer:
    return Checkpointer(
        begun.layout,
        begun.recovery.journal_id,
        # A long replay now means a long one next time, unless a checkpoint follows soon.
        start_sequence=begun.recovery.position.sequence - begun.replayed,
        keep_after=parts.accounting.keep_after,
        bytes_written=lambda: parts.journal.bytes_written,
        say=lambda text, is_error: (log.error if is_error else log.verbose)(text),
    )
