/* The innermost loops of the scheduler's grid, and the memory it lies in.
 *
 * Compilers can vectorize the loops. The memory is in huge pages if the system has them, because
 * searches read all parts of a large cluster's grid.
 */
#ifndef PYSLURM_GRID_H
#define PYSLURM_GRID_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Memory that is freed as a whole; untouched parts cost nothing. */
struct grid_memory {
    struct grid_memory *before;
    size_t size, used;
};

enum {
    GRID_MEMORY_HEAD = 64,
    GRID_SMALL_MEMORY = 1 << 16, /* enough for all of a small cluster */
    GRID_LARGE_MEMORY = 1 << 26,
    GRID_BLOCK = 8, /* slots that share a summary word */
    GRID_LANES = 8,
};

/* Return zeroed memory that begins at a cache line, NULL if there is none. */
static void *grid_take_memory(struct grid_memory **memory, size_t bytes)
{
    size_t wanted = (bytes + 63) & ~(size_t)63, size;
    struct grid_memory *made = *memory;
    if (made == NULL || made->size - made->used < wanted) {
        size = made == NULL ? GRID_SMALL_MEMORY : GRID_LARGE_MEMORY;
        if (size < wanted + GRID_MEMORY_HEAD)
            size = wanted + GRID_LARGE_MEMORY;
        made = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED)
            return NULL;
#ifdef MADV_HUGEPAGE
        if (size >= GRID_LARGE_MEMORY)
            madvise(made, size, MADV_HUGEPAGE);
#endif
        made->before = *memory;
        made->size = size;
        made->used = GRID_MEMORY_HEAD;
        *memory = made;
    }
    made->used += wanted;
    return (char *)made + made->used - wanted;
}

static void grid_give_back_memory(struct grid_memory *memory)
{
    while (memory != NULL) {
        struct grid_memory *before = memory->before;
        munmap(memory, memory->size);
        memory = before;
    }
}

/* Prefetch some memory that will soon be read or written. */
static inline void grid_fetch(const void *memory)
{
    __builtin_prefetch(memory, 1);
}

/* Numbers that are compared together; compilers use the vectors of the machine. */
typedef int16_t grid_lanes __attribute__((vector_size(2 * GRID_LANES)));

/* Return how long a list of numbers for grid_first_least is: whole vectors, the last filled up. */
static inline int grid_whole(int count)
{
    return (count + GRID_LANES - 1) / GRID_LANES * GRID_LANES;
}

/* Return the first position of the least of some numbers; count is whole.
 *
 * Each lane keeps the first of its least numbers, so each number is read once.
 */
static inline int grid_first_least(const int16_t *numbers, int count)
{
    grid_lanes least, line = {0}, now;
    int best = 0;
    memcpy(&least, numbers, sizeof(least));
    for (int at = GRID_LANES; at < count; at += GRID_LANES) {
        grid_lanes is_less;
        memcpy(&now, numbers + at, sizeof(now));
        is_less = now < least;
        least = (now & is_less) | (least & ~is_less);
        line = ((line - line + (int16_t)(at / GRID_LANES)) & is_less) | (line & ~is_less);
    }
    for (int lane = 1; lane < GRID_LANES; lane++)
        if (least[lane] < least[best] || (least[lane] == least[best] && line[lane] < line[best]))
            best = lane;
    return line[best] * GRID_LANES + best;
}

#endif
