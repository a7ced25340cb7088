/* One program under many names: it runs the Python behind the name it was started by.
 *
 * Why not scripts: ps, pidof, /proc/PID/exe and init scripts look for a program called slurmctld,
 * and an interpreter that is told its paths instead of searching for them starts some 1.5 ms sooner,
 * which is a fifth of a squeue.
 *
 * Where the Python is, seen from ROOT, the directory above the one this program lies in:
 *   installed:  ROOT/lib/pyslurm-ng holds our package and the libraries it uses, and in its bin
 *               the interpreter for child processes (then ROOT itself is that directory);
 *   a checkout: ROOT is its virtual environment, and our package is in PYSLURM_SOURCE_DIR.
 * The standard library is the one of the interpreter this was built with (PYSLURM_STDLIB_DIR).
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef PYSLURM_STDLIB_DIR
#error "scripts/build_launcher.py defines PYSLURM_STDLIB_DIR, PYSLURM_DYNLOAD_DIR, PYSLURM_SOURCE_DIR"
#endif

#define PATH_ROOM (PATH_MAX + 64)

/* The modules that every interpreter imports before it is ready, compiled into this program by
 * scripts/build_launcher.py: looked up on disk, they are a tenth of a command's start. */
#include "frozen.h"

#if PY_VERSION_HEX >= 0x030b0000
#define FROZEN(name, code, is_package) {name, code, sizeof code, is_package}
#else
#define FROZEN(name, code, is_package) {name, code, (is_package) ? -(int)sizeof code : (int)sizeof code}
#endif

static const struct _frozen frozen[] = {FROZEN_MODULES{NULL}};

static char self[PATH_MAX];   /* this program, symbolic links followed */
static char root[PATH_MAX];   /* the directory above its own */
static char name[NAME_MAX];   /* what it is called, e.g. squeue */

static void fail(const char *what)
{
    fprintf(stderr, "%s: error: %s\n", name[0] ? name : "pyslurm-ng", what);
    exit(1);
}

static void find_self(void)
{
    char copy[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0)
        fail("cannot read /proc/self/exe; is /proc mounted?");
    self[size] = '\0';
    memcpy(copy, self, size + 1);
    snprintf(name, sizeof name, "%s", basename(copy));
    memcpy(copy, self, size + 1);
    snprintf(root, sizeof root, "%s", dirname(dirname(copy)));
}

static void set_text(PyConfig *config, wchar_t **field, const char *text)
{
    PyStatus status = PyConfig_SetBytesString(config, field, text);
    if (PyStatus_Exception(status))
        fail(status.err_msg ? status.err_msg : "out of memory");
}

static void add_path(PyConfig *config, const char *path)
{
    wchar_t *wide = Py_DecodeLocale(path, NULL);
    if (wide == NULL || PyStatus_Exception(PyWideStringList_Append(&config->module_search_paths, wide)))
        fail("out of memory");
    PyMem_RawFree(wide);
}

/* Our package comes first: its modules are found without a look into the standard library. */
static void set_paths(PyConfig *config)
{
    char ours[PATH_ROOM], libraries[PATH_ROOM] = "", python[PATH_ROOM];
    config->module_search_paths_set = 1;
    snprintf(python, sizeof python, "%s/bin/pyslurm-python", root);
    snprintf(ours, sizeof ours, "%s/lib/pyslurm-ng", root);
    if (access(ours, F_OK) == 0) {
        snprintf(python, sizeof python, "%s/bin/pyslurm-python", ours);
    } else {
        snprintf(ours, sizeof ours, "%s/pyslurm_ng", root);
        if (access(ours, F_OK) == 0) {
            snprintf(ours, sizeof ours, "%s", root);
        } else {
            snprintf(ours, sizeof ours, "%s", PYSLURM_SOURCE_DIR);
            snprintf(libraries, sizeof libraries, "%s/lib/python%d.%d/site-packages", root,
                     PY_MAJOR_VERSION, PY_MINOR_VERSION);
        }
    }
    add_path(config, ours);
    add_path(config, PYSLURM_STDLIB_DIR);
    add_path(config, PYSLURM_DYNLOAD_DIR);
    if (libraries[0])
        add_path(config, libraries);

    /* Given all of these, the interpreter does not search the disk for them. */
    set_text(config, &config->executable, python);
    set_text(config, &config->base_executable, python);
    set_text(config, &config->prefix, PYSLURM_PYTHON_PREFIX);
    set_text(config, &config->base_prefix, PYSLURM_PYTHON_PREFIX);
    set_text(config, &config->exec_prefix, PYSLURM_PYTHON_PREFIX);
    set_text(config, &config->base_exec_prefix, PYSLURM_PYTHON_PREFIX);
    set_text(config, &config->home, PYSLURM_PYTHON_PREFIX);
    config->pathconfig_warnings = 0;
}

/* A frozen package has no directory; the codecs that are seldom used still lie in one. */
static void give_directory(const char *package, const char *directory)
{
    PyObject *module = PyImport_ImportModule(package);
    PyObject *path = Py_BuildValue("[s]", directory);
    if (module == NULL || path == NULL || PyObject_SetAttrString(module, "__path__", path) != 0)
        fail("cannot find the codecs");
    Py_DECREF(path);
    Py_DECREF(module);
}

static void start(int argc, char **argv, int as_interpreter)
{
    PyPreConfig before;
    PyConfig config;
    PyStatus status;

    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1; /* names and paths are bytes to us, whatever the locale says */
    status = Py_PreInitialize(&before);
    if (PyStatus_Exception(status))
        fail(status.err_msg ? status.err_msg : "cannot start the interpreter");

    PyConfig_InitIsolatedConfig(&config);
    config.site_import = 0;
    config.install_signal_handlers = 1;
    config.parse_argv = as_interpreter;
    set_paths(&config);
    status = PyConfig_SetBytesArgv(&config, argc, argv);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status)) {
        if (PyStatus_IsExit(status))
            exit(status.exitcode);
        fail(status.err_msg ? status.err_msg : "cannot start the interpreter");
    }
    PyConfig_Clear(&config);
    give_directory("encodings", PYSLURM_STDLIB_DIR "/encodings");
}

int main(int argc, char **argv)
{
    PyObject *module;

    find_self();
    PyImport_FrozenModules = frozen;
    if (strcmp(name, "pyslurm-python") == 0) {
        /* The interpreter with these paths, for child processes: it is sys.executable. */
        start(argc, argv, 1);
        return Py_RunMain();
    }
    start(argc, argv, 0);
    module = PyImport_ImportModule("pyslurm_ng._run");
    if (module != NULL)
        PyObject_CallMethod(module, "run", "s", name);
    /* run() leaves by _exit; only a broken installation comes here. */
    if (getenv("PYSLURM_DEBUG") != NULL)
        PyErr_Print();
    fprintf(stderr, "%s: error: internal: the Python package is missing or broken below %s\n", name, root);
    return 1;
}
