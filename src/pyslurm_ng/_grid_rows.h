/* What is free of one resource on one node over time: amounts, each from a slot on to the next.
 *
 * Most slots are as the one before them. A row of steps takes a twentieth of the memory that an
 * amount per slot would, and what is read of it is mostly in the cache.
 */
#ifndef PYSLURM_GRID_ROWS_H
#define PYSLURM_GRID_ROWS_H

#include "_grid.h"
#include <string.h>

struct grid_step {
    int32_t amount, slot; /* so much is free from that slot on */
};

/* Steps in order of their slots, the first of them slot 0; no two neighbours are equal in amount
 * unless a change has just come between them. */
struct grid_row {
    struct grid_step *steps;
    int32_t count, room;
};

enum {
    GRID_FIRST_ROOM = 4,
    GRID_ROOMS = 12, /* first room doubled so often is more than there can be slots */
};

/* Steps that rows have outgrown, by their room, for others to grow into. */
struct grid_spare {
    struct grid_step *first[GRID_ROOMS];
};

/* Begin a row that has an amount in all slots, in steps for GRID_FIRST_ROOM. */
static inline void grid_row_begin(struct grid_row *row, struct grid_step *steps, int32_t amount)
{
    steps[0].amount = amount;
    steps[0].slot = 0;
    row->steps = steps;
    row->count = 1;
    row->room = GRID_FIRST_ROOM;
}

static inline int grid_room_class(int room)
{
    return __builtin_ctz((unsigned)room / GRID_FIRST_ROOM);
}

/* Have room for two more steps; return 0, or -1 if there is no memory. */
static int grid_row_grow(struct grid_row *row, struct grid_memory **memory,
                         struct grid_spare *spare)
{
    int room = row->room * 2, kind = grid_room_class(room);
    struct grid_step *old = row->steps, *steps = spare->first[kind];
    if (steps != NULL)
        memcpy(&spare->first[kind], steps, sizeof(steps));
    else
        steps = grid_take_memory(memory, room * sizeof(*steps));
    if (steps == NULL)
        return -1;
    memcpy(steps, old, row->count * sizeof(*steps));
    memcpy(old, &spare->first[kind - 1], sizeof(old));
    spare->first[kind - 1] = old;
    row->steps = steps;
    row->room = room;
    return 0;
}

/* Return the step that a slot is in. */
static inline int grid_row_at(const struct grid_row *row, int slot)
{
    int low = 0, high = row->count - 1;
    while (low < high) {
        int middle = (low + high + 1) >> 1;
        if (row->steps[middle].slot <= slot)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static inline void grid_row_insert(struct grid_row *row, int at, int slot)
{
    memmove(row->steps + at + 1, row->steps + at, (row->count - at) * sizeof(*row->steps));
    row->steps[at].slot = slot; /* the amount is that of the step before, moved up */
    row->steps[at].amount = row->steps[at - 1].amount;
    row->count++;
}

static inline void grid_row_join(struct grid_row *row, int at)
{
    if (at <= 0 || at >= row->count || row->steps[at].amount != row->steps[at - 1].amount)
        return;
    row->count--;
    memmove(row->steps + at, row->steps + at + 1, (row->count - at) * sizeof(*row->steps));
}

/* Add an amount, which may be below 0, in some slots; say the least and the most there are then.
 *
 * Returns 0, or -1 if there is no memory; the row is as it was then.
 */
static int grid_row_add(struct grid_row *row, int start, int end, int slots, int32_t amount,
                        struct grid_memory **memory, struct grid_spare *spare, int32_t *least,
                        int32_t *most)
{
    int32_t low = INT32_MAX, high = INT32_MIN;
    int first, at;
    if (row->count + 2 > row->room && grid_row_grow(row, memory, spare))
        return -1;
    first = grid_row_at(row, start);
    if (row->steps[first].slot < start)
        grid_row_insert(row, ++first, start);
    for (at = first; at < row->count && row->steps[at].slot < end; at++) {
        int32_t left;
        if (end < slots && (at + 1 == row->count || row->steps[at + 1].slot > end))
            grid_row_insert(row, at + 1, end);
        left = row->steps[at].amount += amount;
        low = left < low ? left : low;
        high = left > high ? left : high;
    }
    grid_row_join(row, at);
    grid_row_join(row, first);
    *least = low;
    *most = high;
    return 0;
}

/* Return the least there is in some slots. */
static inline int32_t grid_row_least(const struct grid_row *row, int start, int end)
{
    int32_t least = INT32_MAX;
    for (int at = grid_row_at(row, start); at < row->count && row->steps[at].slot < end; at++)
        least = row->steps[at].amount < least ? row->steps[at].amount : least;
    return least;
}

/* Return the first slot from which on there is an amount, of a row that only grows. */
static inline int grid_row_reaches(const struct grid_row *row, int32_t amount, int slots)
{
    for (int at = 0; at < row->count; at++)
        if (row->steps[at].amount >= amount)
            return row->steps[at].slot;
    return slots;
}

/* Clear a node's bit in the slots that an amount just taken has brought below a threshold.
 *
 * bits has a word per slot, summary one per block of slots.
 */
static inline void grid_clear_below(const struct grid_row *row, uint64_t *restrict bits,
                                    uint64_t *restrict summary, int start, int end,
                                    int32_t threshold, int32_t amount, uint64_t bit)
{
    for (int at = grid_row_at(row, start); at < row->count && row->steps[at].slot < end; at++) {
        int from = row->steps[at].slot, to = at + 1 < row->count ? row->steps[at + 1].slot : end;
        if ((uint32_t)(threshold - 1 - row->steps[at].amount) >= (uint32_t)amount)
            continue;
        from = from < start ? start : from;
        to = to > end ? end : to;
        for (int slot = from; slot < to; slot++)
            bits[slot] &= ~bit;
        for (int block = from / GRID_BLOCK; block <= (to - 1) / GRID_BLOCK; block++)
            summary[block] &= ~bit;
    }
}

/* Set a node's bit in the slots of some that have a threshold again. */
static inline void grid_set_above(const struct grid_row *row, uint64_t *restrict bits,
                                  uint64_t *restrict summary, int start, int end, int slots,
                                  int32_t threshold, uint64_t bit)
{
    for (int at = grid_row_at(row, start); at < row->count && row->steps[at].slot < end; at++) {
        int from = row->steps[at].slot, to = at + 1 < row->count ? row->steps[at + 1].slot : end;
        from = from < start ? start : from;
        to = to > end ? end : to;
        if (row->steps[at].amount >= threshold)
            for (int slot = from; slot < to; slot++)
                bits[slot] |= bit;
    }
    for (int block = start / GRID_BLOCK; block <= (end - 1) / GRID_BLOCK; block++) {
        int last = (block + 1) * GRID_BLOCK;
        uint64_t in_all = bit;
        for (int slot = block * GRID_BLOCK; slot < last && slot < slots; slot++)
            in_all &= bits[slot];
        summary[block] |= in_all;
    }
}

#endif
