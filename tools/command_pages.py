"""The manual pages of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from option_status import refused_options, refused_words
from roff import Page
from slurm_facts import documented

from pyslurm_ng import __version__

HERE = Path(__file__).parent
FACTS = documented()
CLI = HERE.parent / "src" / "pyslurm_ng" / "cli"
ARGUMENTS = {"none": "", "required": "=value", "optional": "[=value]"}

# name -> summary, synopsis, paragraphs, example
TEXTS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "sbatch": (
        "submit a batch script",
        "[options] [script [arguments]]",
        (
            "Submits a script to run later on the nodes it asks for, and prints its job id. "
            "Without a script it reads one from standard input; --wrap makes one of a command.",
            "Options come from the command line, from the environment (SBATCH_...), and from lines "
            "of the script that begin with #SBATCH and stand before its first command; the first "
            "of these that says something wins.",
            "The reply means that the job is on disk: it survives a crash of the controller.",
        ),
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4\n"
        "#SBATCH --time=1:00:00 --output=%x-%j.out\nsrun ./train",
    ),
    "srun": (
        "run tasks in parallel",
        "[options] program [arguments]",
        (
            "Inside an allocation, runs a step of it; outside, asks for an allocation first and "
            "gives it back at the end. Output of all tasks comes to this terminal, standard input "
            "goes to all of them.",
            "The exit code is the highest one of the tasks; a task that a signal ended counts as "
            "128 plus its number.",
        ),
        "srun -N4 --ntasks-per-node=2 --label hostname",
    ),
    "salloc": (
        "allocate nodes and run a command there",
        "[options] [command [arguments]]",
        (
            "Waits for an allocation, runs a command (your shell, without one) on this host with "
            "the allocation in its environment, and gives the allocation back when it ends.",
        ),
        "salloc -N2 -t 30 bash",
    ),
    "squeue": (
        "show jobs that wait or run",
        "[options]",
        ("Shows jobs, one for each line; tasks of an array that still wait share a line.",),
        'squeue --me -o "%.10i %.20j %.8T %R"',
    ),
    "scancel": (
        "cancel or signal jobs",
        "[options] [job[_task][.step] ...]",
        (
            "Cancels the jobs named, or those that match every filter given. A job that runs gets "
            "SIGTERM and, after KillWait, SIGKILL; with --signal only that signal.",
        ),
        "scancel --state=PENDING --name=test",
    ),
    "sinfo": (
        "show partitions and nodes",
        "[options]",
        ("Shows the nodes of each partition by state, or with -N each node on a line of its own.",),
        'sinfo -N -o "%N %t %E"',
    ),
    "sbcast": (
        "send a file to the nodes of a job",
        "[options] SOURCE DEST",
        ("Writes a file on every node of a job, as the user: from within the job, or with --jobid. "
         "What is there is not replaced unless -f is given. The exit code is 0, or the error "
         "number of a node that failed.",),
        "sbcast -f data.bin /tmp/data.bin",
    ),
    "scontrol": (
        "look at and change the cluster",
        "[options] [command [arguments]]",
        (
            "Without a command it reads commands from standard input. Commands and keys may be "
            "shortened while they stay unique.",
            "`scontrol check FILE` validates a configuration and names every error in it.",
        ),
        "scontrol update NodeName=n[1-4] State=DRAIN Reason=memory",
    ),
    "sacct": (
        "show accounting of jobs and steps",
        "[options]",
        ("Shows jobs from the accounting database: today's, unless a time or jobs are given.",),
        "sacct -X -S now-7days -o JobID,JobName,State,ExitCode,Elapsed",
    ),
    "sacctmgr": (
        "manage accounts, users and their limits",
        "[options] command",
        (
            "Shows and changes what accounting knows: clusters, accounts, users, associations, "
            "QOS. Changes are shown and asked about first, unless -i is given; they reach the "
            "controller at once.",
            "show problem lists accounts without users and, for operators, events that the "
            "database could not store, with the error. The rest of what the controller sent is "
            "stored. delete problem clears the list of events.",
        ),
        "sacctmgr -i add account physics Organization=science\n"
        "sacctmgr -i add user alice Account=physics",
    ),
    "sdiag": (
        "show the controller's counters",
        "[options]",
        ("Shows what the controller did since it started or since midnight: requests by kind and "
         "user, jobs, scheduling passes.",
         "At the end stand faults by kind, where there were any. Each cost one job, one message "
         "or one record; slurmctld's log has a line for it."),
        "sdiag --sort-by-time",
    ),
    "sstat": (
        "show what running steps use",
        "[options] -j job[.step],...",
        (
            "Asks the nodes of running steps what their tasks have used up to now: memory, CPU "
            "time, bytes read and written. Of a job without a step it shows the lowest numbered "
            "one, with -a all of them, the batch script's included. Only one's own, but for "
            "operators.",
        ),
        "sstat -a -j 1234 --format=JobID,NTasks,MaxRSS,AveCPU,MaxDiskWrite",
    ),
    "sprio": (
        "show what priorities are made of",
        "[options]",
        ("Shows the factors that add up to the priority of each waiting job, by the formula of "
         "the scheduling pass. Jobs that are held, or whose priority was set by hand, have none.",),
        "sprio -l -j 1234",
    ),
}  # fmt: skip


def option_tag(option: dict[str, Any]) -> str:
    short = f"-{option['short']}, " if option.get("short") else ""
    return f"{short}--{option['long']}{ARGUMENTS.get(option.get('arg', 'none'), '')}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def command_page(name: str) -> Page:
    summary, synopsis, paragraphs, example = TEXTS[name]
    facts = FACTS[name]
    page = Page(name, 1, __version__, summary)
    page.heading("SYNOPSIS")
    page.synopsis(name, synopsis)
    page.heading("DESCRIPTION")
    for paragraph in paragraphs:
        page.paragraph(paragraph)
    refused = refused_options(name)
    page.heading("OPTIONS")
    for option in facts.get("option", []):
        if option["long"] in refused:
            continue
        environment = ", ".join(option.get("env", []))
        more = f" Environment: {environment}." if environment else ""
        page.item(option_tag(option), sentence(option.get("help", "")) + more)
    if refused:
        page.heading("NOT YET")
        names = [f"--{option}" for option in sorted(refused)] + sorted(refused_words(name))
        page.paragraph("These are refused by name: " + ", ".join(names))
    for heading, kind in (("COMMANDS", "subcommand"), ("SHOW", "show_entity")):
        words = [word for word in facts.get(kind, []) if word["name"] not in refused_words(name)]
        listing(page, heading, words)
    listing(page, "FIELDS", facts.get("field", []))
    page.heading("EXAMPLE")
    page.example(example)
    page.heading("SEE ALSO")
    page.paragraph(", ".join(f"{other}(1)" for other in TEXTS if other != name))
    return page


def listing(page: Page, heading: str, entries: list[dict[str, Any]]) -> None:
    if not entries:
        return
    page.heading(heading)
    plain = [entry["name"] for entry in entries if not entry.get("help")]
    if plain:  # names that speak for themselves
        page.paragraph(", ".join(plain))
    for entry in (entry for entry in entries if entry.get("help")):
        letter = f"%{entry['letter']}" if entry.get("letter") else ""
        name = entry.get("name", letter)
        behind = f" ({letter})" if letter and letter != name else ""
        arguments = f" {entry['args']}" if entry.get("args") else ""
        page.item(f"{name}{arguments}{behind}", sentence(entry["help"]))


def pages() -> dict[str, Page]:
    """Return the pages by file name; only of commands that are there."""
    return {f"{name}.1": command_page(name) for name in TEXTS if (CLI / f"{name}.py").exists()}
