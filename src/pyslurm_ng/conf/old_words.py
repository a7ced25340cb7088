"""Words that Slurm took as values in the past. A site's file of ten years ago must still work.

The manuals of slurm.conf, 20.02 to 25.05, say which release took which word.
"""

from __future__ import annotations

from pyslurm_ng.conf.lexer import ConfText, Entry

# (kind of line, key, old word) -> the word of today, or "" if there is none.
_NEW_WORDS = {
    ("slurm.conf", "accountingstorageenforce", "0"): "",
    ("slurm.conf", "accountingstorageenforce", "1"): "associations",
    ("slurm.conf", "accountingstorageenforce", "2"): "associations,limits",
    ("slurm.conf", "communicationparameters", "noaddrcache"): "",
    ("slurm.conf", "debugflags", "esearch"): "Elasticsearch",
    ("slurm.conf", "debugflags", "heterojobs"): "Hetjob",
    ("slurm.conf", "debugflags", "jobcontainer"): "Namespace",
    ("slurm.conf", "debugflags", "powersave"): "Power",
    ("slurm.conf", "enforcepartlimits", "0"): "NO",
    ("slurm.conf", "enforcepartlimits", "1"): "ANY",
    ("slurm.conf", "jobacctgatherparams", "noovermemorykill"): "",
    ("slurm.conf", "jobcomptype", "jobcomp/filesacctout"): "none",
    ("slurm.conf", "jobcomptype", "jobcomp/slurmdbd"): "none",
    ("slurm.conf", "jobcontainertype", "job_container/cncu"): "none",
    ("slurm.conf", "launchparameters", "send_gids"): "",  # it is always so
    ("slurm.conf", "mpidefault", "openmpi"): "none",
    ("slurm.conf", "prioritytype", "priority/multifactor2"): "priority/multifactor",
    ("slurm.conf", "priorityflags", "fair_tree"): "",
    ("slurm.conf", "privatedata", "cloud"): "",
    ("slurm.conf", "schedulerparameters", "no_env_cache"): "",
    ("slurm.conf", "schedulerparameters", "requeue_setup_env_fail"): "",
    ("slurm.conf", "schedulerparameters", "whole_pack"): "whole_hetjob",
    ("slurm.conf", "selecttypeparameters", "other_cons_res"): "",
    ("slurm.conf", "selecttypeparameters", "other_cons_tres"): "",
    ("slurm.conf", "slurmctldparameters", "cloud_reg_addrs"): "",
    ("slurm.conf", "taskpluginparam", "sched"): "",
    ("slurm.conf", "taskpluginparam", "cpusets"): "",
    ("slurm.conf", "x11parameters", "local_xauthority"): "",
    ("NodeName", "state", "idle"): "UNKNOWN",
    # Until 22.05 it was a yes or no.
    ("oci.conf", "createenvfile", "true"): "null",
    ("oci.conf", "createenvfile", "false"): "disabled",
    # Where jobs lie in such a network only changes how fast they talk.
    ("slurm.conf", "topologyplugin", "topology/3d_torus"): "topology/flat",
    ("slurm.conf", "topologyplugin", "topology/hypercube"): "topology/flat",
    # Of machines that Slurm does not know any more: without them nothing that jobs ask for is lost.
    **{
        ("slurm.conf", key, plugin): ""
        for key, plugins in {
            "jobsubmitplugins": "cnode cray cray_aries job_submit/cnode job_submit/cray_aries",
            "nodefeaturesplugins": "node_features/knl_cray node_features/knl_generic",
            "switchtype": "switch/cray switch/cray_aries switch/elan switch/federation "
            "switch/generic switch/nrt",
            "taskplugin": "task/cray task/cray_aries",
        }.items()
        for plugin in plugins.split()
    },
    # What they logged is no longer there: Blue Gene, Cray, front ends, sensors, other schedulers.
    **{
        ("slurm.conf", "debugflags", flag): ""
        for flag in (
            "bgblockalgo bgblockalgodeep bgblockpick bgblockwires extsensors filesystem frontend "
            "infiniband interconnect sicp timecray wiki workqueue"
        ).split()
    },
    # Sites give a level, as for other logs. Any level except 0 turns the log on.
    **{("slurm.conf", "slurmschedloglevel", str(level)): "1" for level in range(2, 10)},
}
_KEYS = {key for _, key, _ in _NEW_WORDS}
# Words of list parameters that are ignored in their key, and where they belong today.
_MOVED = {
    ("schedulerparameters", "kill_invalid_depend"): "DependencyParameters=kill_invalid_depend",
    ("schedulerparameters", "max_job_bf"): "bf_max_job_test",
    ("schedulerparameters", "max_depend_depth"): "DependencyParameters=max_depend_depth",
    ("schedulerparameters", "preempt_reorder_count"): "PreemptParameters=reorder_count",
    ("schedulerparameters", "preempt_send_user_signal"): "PreemptParameters=send_user_signal",
    ("schedulerparameters", "preempt_strict_order"): "PreemptParameters=strict_order",
    ("schedulerparameters", "preempt_youngest_first"): "PreemptParameters=youngest_first",
}


def moved_word(key_name: str, word: str) -> str:
    """Return a hint for a word of a list parameter that belongs to another key today."""
    successor = _MOVED.get((key_name.lower(), word.partition("=")[0].lower()))
    return f"; use {successor}" if successor else ""


def with_todays_words(text: ConfText, section: str, entry: Entry) -> Entry:
    """Return an entry with the words of today. A warning names each old word, once in a file."""
    key = entry.key.lower()
    if key not in _KEYS:
        return entry
    words = []
    for word in entry.value.split(","):
        new_word = _NEW_WORDS.get((section, key, word.strip().lower()))
        if new_word is None:
            words.append(word)
            continue
        words += [new_word] if new_word else []
        if (section, f"{key}={word.lower()}") not in text.named:
            text.named.add((section, f"{key}={word.lower()}"))
            means = f"means {entry.key}={new_word}" if new_word else "is ignored"
            text.warnings.append(
                f"{entry.file}:{entry.line}: {entry.key}={word} no longer exists and {means}"
            )
    return entry._replace(value=",".join(words))
