/* What MPI programs do, as small programs: `programs NAME [ARGUMENT]` prints one line on rank 0.
   Each checks its own result and aborts if it is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void allreduce(void)
{
    long own = rank + 1, sum = 0;
    for (int round = 0; round < 20; round++) {
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        check(sum == (long)size * (size + 1) / 2, "the sum");
    }
    if (!rank)
        printf("allreduce of %d: %ld\n", size, sum);
}

static void ring(void)
{
    int token = 0, next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (!rank) {
        MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(token == size - 1, "the token");
        printf("ring of %d: %d\n", size, token);
    } else {
        MPI_Recv(&token, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token++;
        MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
    }
}

static void one_sided(void)
{
    int *memory, one = 1;
    MPI_Win window;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (!rank) {
        check(*memory == size, "the count");
        printf("one-sided of %d: %d\n", size, *memory);
    }
    MPI_Win_free(&window);
}

static void file(const char *path)
{
    MPI_File out;
    char line[16];
    snprintf(line, sizeof line, "rank %9d\n", rank);
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &out);
    MPI_File_write_at_all(out, (MPI_Offset)rank * 15, line, 15, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&out);
    if (!rank)
        printf("file of %d: %s\n", size, path);
}

static void names(void)
{
    char port[MPI_MAX_PORT_NAME] = "a-port-of-rank-0";
    if (!rank)
        MPI_Publish_name("ocean", MPI_INFO_NULL, port);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(port, 0, sizeof port);
    MPI_Lookup_name("ocean", MPI_INFO_NULL, port);
    check(!strcmp(port, "a-port-of-rank-0"), "the name");
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) {
        MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
        printf("names of %d: %s\n", size, port);
    }
}

static void abort_(int code)
{
    if (rank == size - 1) {
        usleep(200000);
        MPI_Abort(MPI_COMM_WORLD, code);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(300);
}

static void die(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        _exit(3);
    MPI_Barrier(MPI_COMM_WORLD);
    sleep(300);
}

static void spawn(char *self)
{
    MPI_Comm other;
    int codes[1], result;
    char *words[] = {"hello", NULL};
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    result = MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, codes);
    if (!rank)
        printf("spawn: %s\n", result == MPI_SUCCESS ? "done" : "refused");
    check(result != MPI_SUCCESS, "spawn");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "hello";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(name, "allreduce"))
        allreduce();
    else if (!strcmp(name, "ring"))
        ring();
    else if (!strcmp(name, "one-sided"))
        one_sided();
    else if (!strcmp(name, "file"))
        file(argv[2]);
    else if (!strcmp(name, "names"))
        names();
    else if (!strcmp(name, "abort"))
        abort_(atoi(argv[2]));
    else if (!strcmp(name, "die"))
        die();
    else if (!strcmp(name, "spawn"))
        spawn(argv[0]);
    else if (!rank)
        printf("hello of %d\n", size);
    MPI_Finalize();
    return 0;
}
