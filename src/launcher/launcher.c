/* One program under many names: it runs the Python behind the name it was started by. Daily commands
 * begin as a smaller one (command.c).
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

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command_client.h"
#include "command_server.h"

#ifndef PYSLURM_STDLIB_DIR
#error "scripts/build_launcher.py defines PYSLURM_STDLIB_DIR, PYSLURM_DYNLOAD_DIR, PYSLURM_SOURCE_DIR"
#endif

#define PATH_ROOM (PATH_MAX + 64)

/* The modules that every interpreter imports before it is ready, compiled into this program by
 * scripts/build_launcher.py: looked up on disk, they are a tenth of a command's start. */
#include "frozen.h"

#define FROZEN_COUNT (sizeof frozen / sizeof frozen[0])

#if PY_VERSION_HEX >= 0x030b0000
#define FROZEN(name, code, is_package) {name, code, sizeof code, is_package}
#else
#define FROZEN(name, code, is_package) {name, code, (is_package) ? -(int)sizeof code : (int)sizeof code}
#endif

static const struct _frozen frozen[] = {FROZEN_MODULES{NULL}};

static char self[PATH_MAX];   /* this program, symbolic links followed */
static char root[PATH_MAX];   /* the directory above its own */
static char name[NAME_MAX];   /* what it is called, e.g. squeue */
static char ours[PATH_ROOM];  /* the directory that holds our package */
static char libraries[PATH_ROOM]; /* in a checkout, where the libraries we use are; else empty */

/* A pack holds the compiled modules of one command in one file, written by build_launcher.py:
 * taken from there, they cost no search, open and read each, which was a third of an sbatch.
 * A module whose source has changed since is left out, and found where it always was. */
struct pack_head {
    char magic[8];
    uint32_t python;
    uint32_t count;
};
struct pack_entry {
    int64_t modified_s, source_bytes;
    uint32_t name, source, code, code_bytes; /* offsets from the start of the file */
    uint32_t is_package, unused;
};
static const char pack_magic[8] = {'p', 's', 'n', 'g', 'p', 'a', 'k', '1'};
static const char *pack;
static uint32_t pack_count;

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

static void find_ours(void)
{
    snprintf(ours, sizeof ours, "%s/lib/pyslurm-ng", root);
    if (access(ours, F_OK) != 0) {
        snprintf(ours, sizeof ours, "%s/pyslurm_ng", root);
        if (access(ours, F_OK) == 0) {
            snprintf(ours, sizeof ours, "%s", root);
        } else {
            snprintf(ours, sizeof ours, "%s", PYSLURM_SOURCE_DIR);
            snprintf(libraries, sizeof libraries, "%s/lib/python%d.%d/site-packages", root,
                     PY_MAJOR_VERSION, PY_MINOR_VERSION);
        }
    }
}

/* Our package comes first: its modules are found without a look into the standard library. */
static void set_paths(PyConfig *config)
{
    char python[PATH_ROOM + 32], installed[PATH_ROOM];
    config->module_search_paths_set = 1;
    snprintf(installed, sizeof installed, "%s/lib/pyslurm-ng", root);
    snprintf(python, sizeof python, "%s/bin/pyslurm-python",
             strcmp(ours, installed) == 0 ? ours : root);
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

static const struct pack_entry *pack_entries(void)
{
    return (const struct pack_entry *)(pack + sizeof(struct pack_head));
}

/* Map the pack of this command, if there is one for this interpreter. */
static void open_pack(void)
{
    char path[PATH_ROOM + NAME_MAX + 32];
    struct stat facts;
    const struct pack_head *head;
    void *found;
    int fd;

    snprintf(path, sizeof path, "%s/pyslurm_ng/__pycache__/%s.pack", ours, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &facts) != 0 || facts.st_size < (off_t)sizeof *head) {
        close(fd);
        return;
    }
    found = mmap(NULL, facts.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (found == MAP_FAILED)
        return;
    head = found;
    if (memcmp(head->magic, pack_magic, sizeof pack_magic) != 0 || head->python != PY_VERSION_HEX)
        return;
    pack = found;
    pack_count = head->count;
}

/* Add what is in the pack, and still as its source is, to the modules brought along. */
static void freeze_pack(void)
{
    char path[2 * PATH_ROOM];
    const struct pack_entry *entry;
    struct _frozen *table, *next;
    struct stat facts;
    size_t length;

    table = calloc(FROZEN_COUNT + pack_count, sizeof *table);
    if (table == NULL)
        return;
    memcpy(table, frozen, sizeof frozen);
    next = table + FROZEN_COUNT - 1;
    length = snprintf(path, sizeof path, "%s/", ours);
    for (entry = pack_entries(); entry < pack_entries() + pack_count; entry++) {
        snprintf(path + length, sizeof path - length, "%s", pack + entry->source);
        if (stat(path, &facts) != 0 || facts.st_mtime != entry->modified_s ||
            facts.st_size != entry->source_bytes)
            continue;
        next->name = pack + entry->name;
        next->code = (const unsigned char *)pack + entry->code;
#if PY_VERSION_HEX >= 0x030b0000
        next->size = (int)entry->code_bytes;
        next->is_package = (int)entry->is_package;
#else
        next->size = entry->is_package ? -(int)entry->code_bytes : (int)entry->code_bytes;
#endif
        next++;
    }
    PyImport_FrozenModules = table;
}

/* A frozen package has no directory; the codecs that are seldom used still lie in one. */
static void give_directory(const char *package, const char *directory)
{
    PyObject *module = PyImport_ImportModule(package);
    PyObject *path = Py_BuildValue("[s]", directory);
    if (module == NULL || path == NULL || PyObject_SetAttrString(module, "__path__", path) != 0)
        fail("the Python package is missing or broken");
    Py_DECREF(path);
    Py_DECREF(module);
}

/* What is not in the pack is found in the directories of the packages that are. */
static void give_directories(void)
{
    char path[2 * PATH_ROOM];
    const struct pack_entry *entry;

    for (entry = pack_entries(); entry < pack_entries() + pack_count; entry++) {
        if (!entry->is_package)
            continue;
        snprintf(path, sizeof path, "%s/%s", ours, pack + entry->source);
        give_directory(pack + entry->name, dirname(path));
    }
}

static int is_short_lived(void)
{
    return strcmp(name, "srun") != 0 && strcmp(name, "salloc") != 0;
}

/* A page that is touched for the first time costs a trap of about a microsecond, and an sbatch
 * touches 950. Where most of a range will be used, one call brings all its pages: 300 traps are
 * left, and 8 % less processor time. A kernel that cannot do it (before 5.14) leaves things as they were. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define HEAP_BYTES (512 << 10)

extern char __data_start[], _end[];

static void *new_arena(void *context, size_t bytes)
{
    void *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    (void)context;
    return arena == MAP_FAILED ? NULL : arena;
}

static void free_arena(void *context, void *arena, size_t bytes)
{
    (void)context;
    munmap(arena, bytes);
}

static void bring_pages(void)
{
    PyObjectArenaAllocator arenas = {NULL, new_arena, free_arena};
    uintptr_t page = sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)__data_start & ~(page - 1);
    char *heap;

    madvise((void *)begin, (((uintptr_t)_end + page - 1) & ~(page - 1)) - begin,
            MADV_POPULATE_WRITE);
    mallopt(M_TOP_PAD, HEAP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 4 * HEAP_BYTES);
    heap = sbrk(0);
    free(malloc(HEAP_BYTES / 16)); /* grows the heap by this and the padding, and keeps it */
    if (heap != (void *)-1) {
        begin = ((uintptr_t)heap + page - 1) & ~(page - 1);
        if ((uintptr_t)sbrk(0) > begin)
            madvise((void *)begin, (uintptr_t)sbrk(0) - begin, MADV_POPULATE_WRITE);
    }
    PyObject_SetArenaAllocator(&arenas);
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

/* Return the lock with which to start a command server; -1 where none is to be started. */
static int take_lock(void)
{
    const char *text = getenv(LOCK_VARIABLE);
    int lock = text == NULL ? -1 : atoi(text);

    unsetenv(LOCK_VARIABLE);
    return lock > 2 && fcntl(lock, F_SETFD, FD_CLOEXEC) == 0 ? lock : -1;
}

int main(int argc, char **argv)
{
    PyObject *module;
    int lock = take_lock();

    find_self();
    find_ours();
    PyImport_FrozenModules = frozen;
    if (strcmp(name, "pyslurm-python") == 0) {
        /* The interpreter with these paths, for child processes: it is sys.executable. */
        start(argc, argv, 1);
        return Py_RunMain();
    }
    if (strcmp(name, "pyslurm-command-server") == 0) {
        start(argc, argv, 0);
        return serve_commands(argc, argv);
    }
    open_pack();
    if (pack != NULL)
        freeze_pack();
    if (pack != NULL && is_short_lived())
        bring_pages();
    start(argc, argv, 0);
    if (pack != NULL) {
        /* A command ends before its garbage is worth a search. */
        if (is_short_lived())
            PyGC_Disable();
        give_directories();
    }
    module = PyImport_ImportModule("pyslurm_ng._run");
    if (module != NULL)
        PyObject_CallMethod(module, "run", "si", name, lock);
    /* run() leaves by _exit; only a broken installation comes here. */
    if (getenv("PYSLURM_DEBUG") != NULL)
        PyErr_Print();
    fprintf(stderr, "%s: error: internal: the Python package is missing or broken below %s\n", name, root);
    return 1;
}
