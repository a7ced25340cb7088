"""Documents name what is there, and nothing in the repository points outside of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / "pyslurm_ng"
PLACES = "src tests tools docs man bench scripts etc demo debian changelog.d .ci".split()
ENDS = frozenset(".py .pyx .pyi .pxi .h .md .toml .sh .example .txt .json".split())
GENERATED_C = frozenset(("_select.c", "_records.c", "_process.c"))
# Where files of this repository are named in prose.
PROSE = (
    "docs/architecture.md",
    "docs/algorithms.md",
    "docs/reference/where-words-act.md",
    "tools/facts/reliability.md",
    "CONTRIBUTING.md",
)
OUTSIDE = {
    r"\.\./shared": "a folder beside somebody's checkout",
    r"\bARCHITECTURE\b": "a document that is not here; docs/architecture.md is",
    r"\bbehaviours\.md|\bspec/(?:cli|config)\b": "a document that is not here",
    r"\bfindings?,? [HM]\d|\breview [HM]\d|\b[Ff]indings/": "a list that is not here",
}


def _texts() -> Iterator[tuple[str, str]]:
    """Yield the name and text of each file that people write."""
    tops = [path for path in REPOSITORY.iterdir() if path.suffix in (".md", ".toml")]
    inside = (path for folder in PLACES for path in (REPOSITORY / folder).rglob("*"))
    for path in [*tops, REPOSITORY / "Makefile", *inside]:
        if path == Path(__file__) or not path.is_file():
            continue
        is_text = path.suffix in ENDS or path.name in ("Makefile", "run")
        if is_text and "__pycache__" not in path.parts and path.name not in GENERATED_C:
            yield path.relative_to(REPOSITORY).as_posix(), path.read_text(errors="replace")


@cache
def texts() -> dict[str, str]:
    """Return each file's text by name."""
    return dict(_texts())


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_nothing_points_outside_the_repository(pattern: str) -> None:
    """A reader cannot open what stands on the machine where a line was written."""
    lines = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for name, text in texts().items()
        if not name.startswith(("tests/golden/", "tests/fuzz/corpus/"))
        for match in re.finditer(pattern, text)
    ]
    assert not lines, f"{OUTSIDE[pattern]}: {lines}"


@pytest.mark.parametrize("name", PROSE)
def test_each_path_that_a_document_names_is_there(name: str) -> None:
    """When a file is moved, documents have to name the new place."""
    named = set(re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", texts()[name]))
    roots = (REPOSITORY, SOURCE, SOURCE.parent, REPOSITORY / "docs")
    # What make writes to build is there only once it has run.
    named = {path for path in named if not path.startswith("build/")}
    ours = {path for path in named if any((root / path.split("/")[0]).exists() for root in roots)}
    assert ours, "the document names no path: is the pattern right?"
    assert [path for path in ours if not any((root / path).exists() for root in roots)] == []


def test_the_floor_plan_names_each_folder() -> None:
    """README.md says what each folder at the top holds, and names none that has gone."""
    named = set(re.findall(r"^\| `([\w.]+)` \|", texts()["README.md"], re.MULTILINE))
    assert named == {folder for folder in PLACES if not folder.startswith(".")}
    assert [folder for folder in named if not (REPOSITORY / folder).is_dir()] == []


def test_links_between_documents_lead_somewhere() -> None:
    """Links to pages and files; addresses elsewhere are not looked at."""
    broken = []
    for name, text in texts().items():
        if name.endswith(".md") and not name.startswith(("changelog.d/", "tools/facts/")):
            # The site's first page lies at its top: see tools/stage_site.py.
            is_first = name == "docs/site/index.md"
            folder = REPOSITORY if is_first else (REPOSITORY / name).parent
            for target in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", text):
                if not folder.joinpath(target).exists():
                    broken.append(f"{name}: {target}")
    assert not broken


def test_cited_records_and_sections_are_there() -> None:
    """A number that leads nowhere is worse than none."""
    records = {path.name[:4] for path in (REPOSITORY / "docs" / "adr").glob("[0-9]*.md")}
    algorithms = texts()["docs/algorithms.md"]
    sections = set(re.findall(r"^#{2,3} ([\d.]+?)\.? ", algorithms, re.MULTILINE))
    wrong = []
    for name, text in texts().items():
        cited = {number for number in re.findall(r"\bADR (\d{4})\b", text) if number not in records}
        cited |= {
            number
            for number in re.findall(r"algorithms\.md[`),]*,? (?:section )?(\d+(?:\.\d+)*)", text)
            if number not in sections
        }
        wrong += [f"{name}: {number}" for number in cited]
    assert len(sections) > 10
    assert not wrong


# English and the vocabulary of Slurm, Linux and Python, as it stands in names of files. A word that
# a newcomer would not guess is explained in the glossary of docs/architecture.md instead.
PLAIN = frozenset(
    """
    accepted
    accepting
    account
    accounting
    accounts
    accrual
    acct
    actions
    address
    admin
    administration
    admissions
    adoption
    allocation
    allocations
    amounts
    answers
    app
    appliers
    apply
    archive
    array
    assoc
    associations
    auth
    backfill
    background
    bad
    base
    batch
    batches
    beside
    bind
    binding
    bodies
    broadcast
    broken
    by
    calendar
    calls
    cancel
    cgroup
    change
    changes
    channel
    chaos
    charges
    check
    checkpoint
    checkpointer
    checks
    choice
    choosing
    classic
    clear
    cli
    client
    clients
    clock
    clocks
    cluster
    clusters
    columns
    command
    common
    comparison
    complete
    completion
    conditions
    conf
    configuration
    configure
    connection
    cons
    constants
    context
    contract
    control
    controller
    controllers
    core
    cores
    count
    counts
    covered
    cpu
    creation
    credentials
    ctld
    daemon
    daemons
    data
    database
    dates
    dbd
    debug
    defaults
    dependency
    depth
    description
    device
    devices
    diag
    diagnostics
    differences
    directives
    directory
    disk
    display
    documents
    due
    dump
    duties
    dynamic
    early
    easy
    edges
    editor
    efficiency
    elastic
    end
    ending
    endpoint
    ends
    environment
    error
    errors
    estimates
    events
    exact
    explain
    explained
    explainer
    extra
    extract
    factors
    facts
    failed
    failures
    fair
    faulty
    features
    field
    fields
    file
    files
    filter
    follow
    forecast
    format
    free
    freed
    frequency
    future
    gang
    gather
    gpu
    gpus
    gres
    groups
    hdf5
    health
    held
    help
    het
    hidden
    history
    holders
    holding
    hooks
    host
    hostlist
    hour
    identities
    identity
    ids
    index
    ingest
    init
    initial
    input
    inside
    io
    job
    jobs
    json
    jwt
    kept
    kernel
    key
    keys
    kinds
    known
    late
    launch
    launcher
    launches
    layout
    left
    lengths
    lexer
    license
    licenses
    life
    limit
    limits
    lines
    link
    list
    listening
    listing
    lists
    load
    loading
    local
    lock
    log
    long
    lookups
    loop
    loss
    lost
    lua
    mail
    mailer
    main
    matching
    memory
    merge
    messages
    mgr
    migrations
    model
    modes
    monitor
    msgpack
    multi
    munge
    named
    names
    neighbour
    neighbours
    net
    network
    new
    node
    nodes
    notes
    notices
    now
    number
    numbers
    nvml
    of
    old
    on
    open
    openapi
    operations
    option
    options
    order
    orders
    orphaned
    other
    others
    out
    outbox
    output
    overlap
    overlapping
    own
    owner
    pace
    packed
    page
    partition
    parts
    path
    patterns
    period
    permission
    plain
    plots
    plugins
    policy
    poll
    ports
    power
    preempt
    preemption
    preparation
    priorities
    priority
    private
    problem
    problems
    process
    processes
    profile
    profiles
    prog
    program
    programs
    promised
    protocol
    purposes
    python
    qos
    queries
    query
    question
    queue
    quick
    ranges
    rate
    readers
    reason
    reasons
    reboot
    receiver
    recent
    recorded
    records
    recover
    recovery
    refusal
    registration
    registry
    relative
    removed
    repeat
    replay
    replayed
    replies
    report
    reports
    request
    requester
    requests
    requeue
    reservation
    reservations
    reserved
    reset
    resize
    resized
    resources
    restored
    result
    roles
    room
    routes
    rules
    run
    runaway
    runner
    running
    runs
    sacct
    sacctmgr
    salloc
    samples
    sattach
    sbatch
    sbcast
    scancel
    sched
    scheduler
    scheduling
    schema
    scontrol
    scope
    scripts
    sdiag
    search
    searching
    seff
    select
    selection
    sender
    sending
    sensors
    series
    server
    service
    session
    settings
    setup
    sh5util
    shared
    sharing
    show
    signal
    signals
    silence
    sim
    sinfo
    site
    size
    sizes
    slices
    sluid
    slurm
    slurmd
    slurmdbd
    smart
    snapshot
    sockets
    span
    spank
    spec
    spool
    spreading
    sprio
    squeue
    sreport
    srun
    sshare
    sstat
    standing
    start
    started
    starter
    starting
    starts
    state
    statements
    states
    step
    stepd
    steps
    store
    stream
    streams
    strict
    strigger
    submission
    submit
    sums
    suspended
    swait
    system
    table
    tables
    task
    tasks
    terminal
    text
    texts
    timekeeper
    timers
    times
    together
    tokens
    toml
    top
    topology
    trace
    traffic
    transfers
    tree
    tres
    trials
    trigger
    turns
    up
    update
    updates
    usage
    user
    users
    utilities
    vacated
    values
    verbs
    versions
    victim
    victims
    view
    views
    wait
    waiting
    walk
    watch
    web
    whole
    will
    window
    words
    worker
    workload
    world
    write
    x11
    yaml
    zmq
    """.split()
)


def _words_of_names() -> dict[str, str]:
    """Return each word in the name of a module or package with one place where it stands."""
    file_of_word: dict[str, str] = {}
    for path in SOURCE.rglob("*"):
        is_package = path.is_dir() and path.name != "__pycache__"
        if is_package or path.suffix in (".py", ".pyx", ".pxi", ".h"):
            for word in re.split(r"[\W_]+", path.stem.lower()):
                file_of_word.setdefault(word, path.relative_to(SOURCE).as_posix())
    return file_of_word


def test_each_unusual_word_in_a_files_name_is_in_the_glossary() -> None:
    """Readers that look for a behaviour read the names of files first."""
    glossary = texts()["docs/architecture.md"].split("## Glossary")[1]
    explained = set(" ".join(re.findall(r"\*\*([a-z ]+)\*\*", glossary)).split())
    assert len(explained) >= 60
    unknown = {
        word: where
        for word, where in _words_of_names().items()
        if word and not re.fullmatch(r"m?\d+|d", word)
        if not {word, word.removesuffix("s"), word + "s"} & (explained | PLAIN)
    }
    assert not unknown, f"neither plain nor in the glossary of docs/architecture.md: {unknown}"


OPTION_OR_KEY = re.compile(r"--[a-z-]+|\b[A-Z]+[a-z]+[A-Z]\w+|\b[a-z]+_[a-z_]+\b|\bafter\w+")


def _letters(text: str) -> str:
    """Return only letters and digits, so that MinJobAge and `min_job_age` are the same."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_where_words_act_names_files_that_know_the_words() -> None:
    """A row whose file says nothing of its keys sends readers to the wrong place."""
    page = texts()["docs/reference/where-words-act.md"]
    rows = re.findall(r"^\| (.+) \| (.*`.*) \|$", page, re.MULTILINE)
    named = 0
    for behaviour, places in rows:
        files = re.findall(r"`([\w/]+\.py)`", places)
        known = _letters("".join(texts()[f"src/pyslurm_ng/{file}"] for file in files))
        words = OPTION_OR_KEY.findall(behaviour)
        named += len(words)
        assert [word for word in words if _letters(word) not in known] == [], files
    assert named > 60
