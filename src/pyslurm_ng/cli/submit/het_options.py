"""Options of heterogeneous jobs: `:` between the components on a command line.

Every component has its own options. Some options are about the job, not about its resources. They
count for all later components, too, until a component has another value.
"""

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE, SCRIPT
from pyslurm_ng.cli.submit.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Pairs: TypeAlias = list[tuple[str, str | None]]

MOST_COMPONENTS = 128
PASSED_ON = frozenset(
    "account acctg-freq begin chdir clusters cluster-constraint comment deadline delay-boot "
    "dependency distribution epilog error exclude export export-file get-user-env gid hold "
    "ignore-pbs immediate input job-name kill-on-bad-exit kill-on-invalid-dep label mail-type "
    "mail-user mcs-label mpi msg-timeout nice no-kill no-requeue open-mode output parsable "
    "priority profile prolog propagate qos quiet quit-on-interrupt reboot requeue reservation "
    "signal slurmd-debug task-epilog task-prolog test-only time time-min uid unbuffered verbose "
    "wait wait-all-nodes wckey wrap".split()
)


def split_groups(options: Options, operands: "list[str]") -> "tuple[list[Pairs], list[str]]":
    """Return the options of each further component and the operands after the last one.

    Raises:
        OptionError: see `Options.split_words`.
    """
    groups: list[Pairs] = []
    while operands[:1] == [":"]:
        pairs, operands = options.split_words(operands[1:])
        groups.append(pairs)
    return groups, operands


def next_component(
    before: Options,
    directives: "Pairs",
    pairs: "Pairs",
    environment: "dict[str, str]",
) -> Options:
    """Return the options of the component after `before`.

    Args:
        directives: the script's options for this component.
        pairs: the command line's options for it.

    Raises:
        OptionError: a value is wrong.
    """
    options = Options(before.command)
    if before.filters is not None:
        options.filters = before.filters
        options.filters.setup(options)
    if before.plugins is not None:
        options.use_plugins()
    for name, (_, value) in before.given.items():
        if name in PASSED_ON:
            options.apply(name, value, SCRIPT)
    options.apply_all(directives, SCRIPT)
    options.apply_environment(environment)
    options.apply_all(pairs, COMMAND_LINE)
    return options


def further_components(
    first: Options,
    directives: "list[Pairs]",
    groups: "list[Pairs]",
    environment: "dict[str, str]",
) -> "list[Options]":
    """Return the options of all components but the first.

    Raises:
        OptionError: a value is wrong, or there are too many components.
    """
    count = max(len(directives), len(groups))
    if count >= MOST_COMPONENTS:
        raise OptionError(f"too many components; {MOST_COMPONENTS} are allowed", 1)
    components = [first]
    for index in range(count):
        script = directives[index] if index < len(directives) else []
        line = groups[index] if index < len(groups) else []
        components.append(next_component(components[-1], script, line, environment))
    return components[1:]
