/* The innermost loops of the scheduler's grid, and the memory it lies in.
 *
 * The loops are written so that compilers make vector code of them; the memory comes in huge pages
 * where the system has them, for the grid of a large cluster is read all over.
 */
#ifndef PYSLURM_GRID_H
#define PYSLURM_GRID_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Memory that is given back all at once; what is not touched costs nothing. */
struct grid_memory {
    struct grid_memory *before;
    size_t size, used;
};

enum {
    GRID_MEMORY_HEAD = 64,
    GRID_SMALL_MEMORY = 1 << 16, /* enough for all of a small cluster */
    GRID_LARGE_MEMORY = 1 << 26,
    GRID_BLOCK = 8, /* slots that share a summary word */
    GRID_EXPECTED = 128,
    GRID_STRIDE = 16, /* cells to look at before asking whether that was enough */
};

/* Return zeroed memory that begins on a cache line of its own, NULL if there is none. */
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

/* Return where the least of some numbers stands first; there is one at least. */
static inline int grid_first_least(const int16_t *numbers, int count)
{
    int16_t least = numbers[0];
    int place = 0;
    for (int at = 1; at < count; at++)
        least = numbers[at] < least ? numbers[at] : least;
    while (numbers[place] != least)
        place++;
    return place;
}

/* Have the first of some cells brought into the cache; the others follow once these are read. */
static inline void grid_expect(const int32_t *cells, int count)
{
    for (int at = 0; at < count && at < GRID_EXPECTED; at += 64 / sizeof(*cells))
        __builtin_prefetch(cells + at, 1);
}

/* Return whether some cells all hold an amount. */
static inline int grid_holds(const int32_t *cells, int count, int32_t amount)
{
    int at = 0;
    for (; at + GRID_STRIDE <= count; at += GRID_STRIDE) {
        int32_t below = 0;
        for (int lane = 0; lane < GRID_STRIDE; lane++)
            below |= cells[at + lane] - amount;
        if (below < 0)
            return 0;
    }
    for (; at < count; at++)
        if (cells[at] < amount)
            return 0;
    return 1;
}

/* Take an amount off each cell; say what is left in the fullest and in the emptiest. */
static inline void grid_take_off(int32_t *restrict cells, int count, int32_t amount,
                                 int32_t *least, int32_t *most)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (int at = 0; at < count; at++) {
        int32_t left = cells[at] - amount;
        cells[at] = left;
        high = left > high ? left : high;
        low = left < low ? left : low;
    }
    *least = low;
    *most = high;
}

/* Clear a node's bit in the slots that an amount just taken has brought below a threshold.
 *
 * bits has a word per slot, summary one per block of slots. What need not change is not touched:
 * most of it is not in the cache.
 */
static inline void grid_clear_below(const int32_t *restrict cells, uint64_t *restrict bits,
                                    uint64_t *restrict summary, int start, int end,
                                    int32_t threshold, int32_t amount, uint64_t bit)
{
    for (int slot = start; slot < end;) {
        int block = slot / GRID_BLOCK, top = (block + 1) * GRID_BLOCK, at;
        uint32_t crossed = 0;
        if (top > end)
            top = end;
        for (at = slot; at < top; at++)
            crossed |= (uint32_t)(threshold - 1 - cells[at]) < (uint32_t)amount;
        if (crossed) {
            for (at = slot; at < top; at++)
                bits[at] &= ~(-(uint64_t)(cells[at] < threshold) & bit);
            summary[block] &= ~bit;
        }
        slot = top;
    }
}

#endif
