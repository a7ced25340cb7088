"""SLURM_TRES_PER_TASK as its user wrote --tres-per-task."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.submit.option_state import OptionState


def task_tres_text(said: "OptionState") -> str:
    """Return the text for SLURM_TRES_PER_TASK, "" if nothing is said of each task.

    It is that of --tres-per-task as typed. --cpus-per-task and --gpus-per-task stand before it as
    if they were written in it, where it names neither.
    """
    typed = said.given.get("tres-per-task", (0, ""))[1] or ""
    names = [word.replace(":", "=").partition("=")[0].lower() for word in typed.split(",")]
    words = []
    cpus, gpus = said.request.get("cpus_per_task", 0), said.request.get("gpus_per_task", "")
    if cpus and "cpu" not in names:
        words.append(f"cpu={cpus}")
    if gpus and "gpu" not in typed.lower():
        for word in gpus.split(","):
            kind, _, count = word.rpartition(":")
            words.append(f"gres/gpu:{kind}={count}" if kind else f"gres/gpu={count}")
    return ",".join([*words, typed] if typed else words)
