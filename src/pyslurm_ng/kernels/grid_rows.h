/* What is free of one resource on one node over time: amounts, each from a slot on to the next.
 *
 * Most slots equal the slot before. A row of steps takes a twentieth of the memory of an amount per
 * slot, and reads of it are mostly in the cache.
 */
#ifndef PYSLURM_GRID_ROWS_H
#define PYSLURM_GRID_ROWS_H

#include "grid_planes.h"

/* Amounts and their first slots are in one block, amounts first.
 *
 * Slots ascend from slot 0, and no two neighbours are equal in amount. If a node has no row of a
 * resource, count is 0 and there are no steps.
 */
struct grid_row {
    int32_t *amounts;
    int16_t count, size; /* size of the block, see grid_room */
};

enum {
    GRID_FIRST_BLOCK = 32, /* bytes; each larger size has twice as many */
    GRID_SIZES = 12, /* the largest has room for more steps than there can be slots */
};

/* Blocks that were too small for their rows, by size, for other rows to use. */
struct grid_spare {
    void *first[GRID_SIZES];
};

/* Return how many steps a block has room for: as many as fill its cache lines. */
static inline int grid_room(int size)
{
    return (GRID_FIRST_BLOCK << size) / (int)(sizeof(int32_t) + sizeof(int16_t));
}

static inline int16_t *grid_slots(const struct grid_row *row)
{
    return (int16_t *)(row->amounts + grid_room(row->size));
}

/* Begin a row that has an amount in all slots, in a block of GRID_FIRST_BLOCK. */
static inline void grid_row_begin(struct grid_row *row, void *block, int32_t amount)
{
    row->amounts = block;
    row->count = 1;
    row->size = 0;
    row->amounts[0] = amount;
    grid_slots(row)[0] = 0;
}

/* Prefetch a row's block. */
static inline void grid_row_fetch(const struct grid_row *row)
{
    __builtin_prefetch(row->amounts, 1);
    __builtin_prefetch(grid_slots(row) + row->count / 2, 1);
}

/* Move a row to a block of twice the size; return 0, or -1 if there is no memory. */
static int grid_row_grow(struct grid_row *row, struct grid_memory **memory,
                         struct grid_spare *spare)
{
    struct grid_row old = *row;
    void *block = spare->first[old.size + 1];
    if (block != NULL)
        memcpy(&spare->first[old.size + 1], block, sizeof(block));
    else
        block = grid_take_memory(memory, (size_t)GRID_FIRST_BLOCK << (old.size + 1));
    if (block == NULL)
        return -1;
    row->amounts = block;
    row->size++;
    memcpy(row->amounts, old.amounts, old.count * sizeof(int32_t));
    memcpy(grid_slots(row), grid_slots(&old), old.count * sizeof(int16_t));
    memcpy(old.amounts, &spare->first[old.size], sizeof(block));
    spare->first[old.size] = old.amounts;
    return 0;
}

/* Return the step that a slot is in. */
static inline int grid_row_at(const struct grid_row *row, int slot)
{
    const int16_t *slots = grid_slots(row);
    int low = 0, left = row->count;
    while (left > 1) {
        int half = left >> 1;
        low = slots[low + half] <= slot ? low + half : low;
        left -= half;
    }
    return low;
}

/* Move the steps from one on, to make room. */
static inline void grid_row_move(struct grid_row *row, int at, int to)
{
    if (at == to || at == row->count)
        return;
    memmove(row->amounts + to, row->amounts + at, (row->count - at) * sizeof(int32_t));
    memmove(grid_slots(row) + to, grid_slots(row) + at, (row->count - at) * sizeof(int16_t));
}

/* Add an amount other than 0, which may be below it, in some slots of a row.
 *
 * Tells the least and the most in these slots then. Returns 0, or -1 if there is no memory; the
 * row is as it was then.
 */
static int grid_row_add(struct grid_row *row, int start, int end, int slots, int32_t amount,
                        struct grid_memory **memory, struct grid_spare *spare, int32_t *least,
                        int32_t *most)
{
    int32_t low = INT32_MAX, high = INT32_MIN, before;
    int32_t *amounts;
    int16_t *from;
    int first, last, count, begins, ends, joins_first, joins_last, more, tail;
    if (row->count + 2 > grid_room(row->size) && grid_row_grow(row, memory, spare))
        return -1;
    amounts = row->amounts;
    from = grid_slots(row);
    count = row->count;
    first = last = grid_row_at(row, start);
    for (;; last++) {
        low = amounts[last] < low ? amounts[last] : low;
        high = amounts[last] > high ? amounts[last] : high;
        if (last + 1 == count || from[last + 1] >= end)
            break;
    }
    *least = low + amount;
    *most = high + amount;
    /* A step begins at the start, and one after the end, unless it then is as its neighbour. */
    begins = from[first] < start;
    ends = end < slots && (last + 1 == count || from[last + 1] > end);
    joins_first = !begins && first > 0 && amounts[first] + amount == amounts[first - 1];
    joins_last = !ends && last + 1 < count && amounts[last] + amount == amounts[last + 1];
    before = amounts[last];
    more = begins - joins_first;
    tail = last + 1 + joins_last;
    if (more > 0) {
        grid_row_move(row, tail, last + 2 + ends);
        for (int at = last; at >= first; at--) {
            amounts[at + 1] = amounts[at] + amount;
            from[at + 1] = from[at];
        }
        from[first + 1] = start;
    } else {
        for (int at = first + joins_first; at <= last; at++) {
            amounts[at + more] = amounts[at] + amount;
            from[at + more] = from[at];
        }
        grid_row_move(row, tail, last + 1 + more + ends);
    }
    if (ends) {
        amounts[last + 1 + more] = before;
        from[last + 1 + more] = end;
    }
    row->count = count + more + ends - joins_last;
    return 0;
}

/* Return the least amount in some slots. */
static inline int32_t grid_row_least(const struct grid_row *row, int start, int end)
{
    const int16_t *from = grid_slots(row);
    int32_t least = INT32_MAX;
    for (int at = grid_row_at(row, start); at < row->count && from[at] < end; at++)
        least = row->amounts[at] < least ? row->amounts[at] : least;
    return least;
}

/* Return the first slot from which on there is an amount, of a row that only grows. */
static inline int grid_row_reaches(const struct grid_row *row, int32_t amount, int slots)
{
    for (int at = 0; at < row->count; at++)
        if (row->amounts[at] >= amount)
            return grid_slots(row)[at];
    return slots;
}

/* Clear a node's bit in the slots that an amount just taken has brought below a threshold.
 *
 * slots: how many there are. Returns 0, or -1 if there is no memory.
 */
static inline int grid_clear_below(const struct grid_row *row, struct grid_block *blocks, int start,
                                   int end, int slots, int32_t threshold, int32_t amount,
                                   uint64_t bit, struct grid_memory **memory,
                                   struct grid_words *words)
{
    const int16_t *begins = grid_slots(row);
    int from = -1; /* of the current stretch below it */
    for (int at = grid_row_at(row, start); at < row->count && begins[at] < end; at++) {
        int is_below = (uint32_t)(threshold - 1 - row->amounts[at]) < (uint32_t)amount;
        int begin = begins[at] < start ? start : begins[at];
        if (is_below && from < 0)
            from = begin;
        if (!is_below && from >= 0) {
            if (grid_clear(blocks, from, begin, bit, memory, words))
                return -1;
            from = -1;
        }
    }
    return from < 0 ? 0 : grid_clear(blocks, from, grid_block_end(end, slots), bit, memory, words);
}

/* Set a node's bit in the slots of some that have a threshold again; see grid_clear_below. */
static inline int grid_set_above(const struct grid_row *row, struct grid_block *blocks, int start,
                                 int end, int slots, int32_t threshold, uint64_t bit,
                                 struct grid_memory **memory, struct grid_words *words)
{
    const int16_t *begins = grid_slots(row);
    for (int at = grid_row_at(row, start); at < row->count && begins[at] < end; at++) {
        int from = begins[at] < start ? start : begins[at];
        int to = at + 1 < row->count && begins[at + 1] < end ? begins[at + 1] : end;
        if (row->amounts[at] >= threshold
            && grid_set(blocks, from, grid_block_end(to, slots), bit, memory, words))
            return -1;
    }
    return 0;
}

#endif
