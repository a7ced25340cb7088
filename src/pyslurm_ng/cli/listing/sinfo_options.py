"""What sinfo -v prints first: its options, and what the format needs. Scripts look for it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.listing.list_format import Format

_RULE = "-" * 29
_FITTED = 9  # Slurm's width of a partition's name
_NEEDS = (
    ("alloc_mem_flag  = ", ("allocmem",)),
    ("avail_flag      = ", ("available",)),
    ("comment_flag    = ", ("comment",)),
    ("cpus_flag       = ", ("cpus",)),
    ("default_time_flag =", ("defaulttime",)),
    ("disk_flag       = ", ("disk",)),
    ("extra_flag      = ", ("extra",)),
    ("features_flag   = ", ("features",)),
    ("features_flag_act = ", ("features_act",)),
    ("groups_flag     = ", ("groups",)),
    ("gres_flag       = ", ("gres",)),
    ("gres_used_flag  = ", ("gresused",)),
    ("job_size_flag   = ", ("size",)),
    ("max_time_flag   = ", ("time",)),
    ("memory_flag     = ", ("memory",)),
    ("partition_flag  = ", ("partition", "partitionname")),
    ("port_flag       = ", ("port",)),
    ("priority_job_factor_flag   = ", ("priorityjobfactor",)),
    ("priority_tier_flag   = ", ("prioritytier",)),
    ("reason_flag     = ", ("reason",)),
    ("reason_timestamp_flag = ", ("timestamp",)),
    ("reason_user_flag = ", ("user", "userlong")),
    ("reservation_flag = ", ("reservation",)),
    ("root_flag       = ", ("root",)),
    ("oversubscribe_flag      = ", ("oversubscribe",)),
    ("state_flag      = ", ("statecompact", "statelong", "statecomplete")),
    ("statecomplete_flag = ", ("statecomplete",)),
    ("weight_flag     = ", ("weight",)),
)
"""The line of each field that rows are told apart by, as Slurm 22.05 writes it."""


def block(options: "dict[str, str]", chosen: "Format", count: int) -> str:
    """Return the lines for the options that were given.

    Args:
        chosen: the columns that are printed.
        count: how often -v was given.
    """
    names = [column.key for column in chosen.columns]
    columns = []
    for column in chosen.columns:
        width = column.width or (_FITTED if column.fits else 0)
        columns.append(f"{column.key}:{'.' if column.right else ''}{width}")
    format_text = options.get("Format") or options.get("format") or " ,".join(columns)

    def word(is_true: bool) -> str:
        return "true" if is_true else "false"

    is_node_view = "Node" in options
    is_filtered = not {"nodes", "partition", "states", "dead", "responding"}.isdisjoint(options)
    lines = [
        _RULE,
        f"dead        = {word('dead' in options)}",
        f"exact       = {int('exact' in options)}",
        f"filtering   = {word(is_filtered)}",
        f"format      = {format_text}",
        f"iterate     = {options.get('iterate') or 0}",
        f"long        = {word('long' in options)}",
        f"no_header   = {word('noheader' in options)}",
        f"node_field  = {word(is_node_view)}",
        f"node_format = {word(is_node_view)}",
        f"nodes       = {options.get('nodes') or 'n/a'}",
        f"part_field  = {word(not is_node_view and 'partition' in names)}",
        f"partition   = {options.get('partition') or 'n/a'}",
        f"responding  = {word('responding' in options)}",
        f"states      = {options.get('states') or '(null)'}",
        f"sort        = {options.get('sort') or '(null)'}",
        f"summarize   = {word('summarize' in options)}",
        f"verbose     = {count}",
        _RULE,
        f"all_flag        = {word('all' in options)}",
        *(label + word(not set(needed).isdisjoint(names)) for label, needed in _NEEDS),
        _RULE,
    ]
    return "\n".join(lines) + "\n\n"
