/* Which of 64 nodes are free over a window of slots: a bit per node, a word per slot.
 *
 * Nodes are looked up in one plane per resource. Slots are grouped in blocks. In most blocks the
 * same nodes are free in all slots, so one word is enough. Windows are read from their end: the
 * next window to try begins after the slot in which the last node drops out.
 */
#ifndef PYSLURM_GRID_PLANES_H
#define PYSLURM_GRID_PLANES_H

#include "grid_loops.h"

enum { GRID_VIEW_PLANES = 3 }; /* most requests have as many or fewer */

/* The slots of a block. */
struct grid_block {
    uint64_t in_all; /* nodes that are free in all slots */
    uint64_t *each;  /* nodes that are free in each slot; NULL if these are the same */
};

/* The memory of blocks: words of slots side by side. */
struct grid_words {
    uint64_t *spare; /* freed words, each with the address of the next */
};

/* Give each slot of a block its own word; return 0, or -1 if there is no memory. */
static inline int grid_block_open(struct grid_block *block, struct grid_memory **memory,
                                  struct grid_words *words)
{
    uint64_t *each = words->spare;
    if (each != NULL)
        memcpy(&words->spare, each, sizeof(each));
    else
        each = grid_take_memory(memory, GRID_BLOCK * sizeof(*each));
    if (each == NULL)
        return -1;
    for (int slot = 0; slot < GRID_BLOCK; slot++)
        each[slot] = block->in_all;
    block->each = each;
    return 0;
}

/* Free the words of a block if all have become the same. */
static inline void grid_block_close(struct grid_block *block, struct grid_words *words)
{
    uint64_t *each = block->each, differ = 0;
    for (int slot = 0; slot < GRID_BLOCK; slot++)
        differ |= each[slot] ^ block->in_all;
    if (differ)
        return;
    memcpy(each, &words->spare, sizeof(each));
    words->spare = each;
    block->each = NULL;
}

/* Fill a block with the words of its slots; return 0, or -1 if there is no memory. */
static inline int grid_block_fill(struct grid_block *block, const uint64_t *each,
                                  struct grid_memory **memory, struct grid_words *words)
{
    uint64_t in_all = each[0], in_any = each[0];
    for (int slot = 1; slot < GRID_BLOCK; slot++) {
        in_all &= each[slot];
        in_any |= each[slot];
    }
    block->in_all = in_all;
    block->each = NULL;
    if (in_all == in_any)
        return 0;
    if (grid_block_open(block, memory, words))
        return -1;
    memcpy(block->each, each, GRID_BLOCK * sizeof(*each));
    return 0;
}

/* Return the end of a stretch for grid_clear and grid_set: after the last slot it includes the rest
 * of the block, so that a block of fewer slots is like others.
 */
static inline int grid_block_end(int end, int slots)
{
    return end < slots ? end : (slots + GRID_BLOCK - 1) / GRID_BLOCK * GRID_BLOCK;
}

/* Clear a node's bit in some slots; return 0, or -1 if there is no memory.
 *
 * Where the last slot ends, its block does: see grid_block_end.
 */
static inline int grid_clear(struct grid_block *blocks, int start, int end, uint64_t bit,
                             struct grid_memory **memory, struct grid_words *words)
{
    for (int number = start / GRID_BLOCK; number <= (end - 1) / GRID_BLOCK; number++) {
        struct grid_block *block = blocks + number;
        int bottom = number * GRID_BLOCK, from = start > bottom ? start - bottom : 0;
        int to = end - bottom < GRID_BLOCK ? end - bottom : GRID_BLOCK;
        if (block->each == NULL && to - from < GRID_BLOCK && block->in_all & bit
            && grid_block_open(block, memory, words))
            return -1;
        block->in_all &= ~bit;
        if (block->each == NULL)
            continue;
        for (int slot = from; slot < to; slot++)
            block->each[slot] &= ~bit;
        grid_block_close(block, words);
    }
    return 0;
}

/* Set a node's bit in some slots; return 0, or -1 if there is no memory. See grid_clear. */
static inline int grid_set(struct grid_block *blocks, int start, int end, uint64_t bit,
                           struct grid_memory **memory, struct grid_words *words)
{
    for (int number = start / GRID_BLOCK; number <= (end - 1) / GRID_BLOCK; number++) {
        struct grid_block *block = blocks + number;
        int bottom = number * GRID_BLOCK, from = start > bottom ? start - bottom : 0;
        int to = end - bottom < GRID_BLOCK ? end - bottom : GRID_BLOCK;
        uint64_t in_all = bit;
        if (block->each == NULL && to - from < GRID_BLOCK && !(block->in_all & bit)
            && grid_block_open(block, memory, words))
            return -1;
        if (block->each == NULL) {
            block->in_all |= bit;
            continue;
        }
        for (int slot = from; slot < to; slot++)
            block->each[slot] |= bit;
        for (int slot = 0; slot < GRID_BLOCK; slot++)
            in_all &= block->each[slot];
        block->in_all |= in_all;
        grid_block_close(block, words);
    }
    return 0;
}

/* Prefetch what grid_clear will change in existing blocks. */
static inline void grid_clear_ahead(const struct grid_block *blocks, int start, int end)
{
    for (int number = start / GRID_BLOCK; number <= (end - 1) / GRID_BLOCK; number++)
        __builtin_prefetch(blocks[number].each, 1);
}

/* The planes of a request for one word of nodes. */
struct grid_view {
    const struct grid_block *plane[GRID_VIEW_PLANES]; /* if there are fewer, one is entered twice */
    struct grid_block *const *planes;                 /* of all words */
    const int *more;                                  /* numbers of further planes */
    int more_count;
    size_t at; /* the beginning of the word's blocks */
};

static inline void grid_look(struct grid_view *view, struct grid_block *const *planes,
                             const int *numbers, int count, int word, int blocks)
{
    view->planes = planes;
    view->at = (size_t)word * blocks;
    for (int place = 0; place < GRID_VIEW_PLANES; place++)
        view->plane[place] = count ? planes[numbers[place < count ? place : 0]] + view->at : NULL;
    view->more = numbers + GRID_VIEW_PLANES;
    view->more_count = count > GRID_VIEW_PLANES ? count - GRID_VIEW_PLANES : 0;
}

/* Return the nodes that are free in all slots of a block. */
static inline uint64_t grid_free_block(const struct grid_view *view, int block)
{
    uint64_t found = view->plane[0][block].in_all & view->plane[1][block].in_all
                     & view->plane[2][block].in_all;
    for (int place = 0; place < view->more_count; place++)
        found &= view->planes[view->more[place]][view->at + block].in_all;
    return found;
}

/* The words of a block in each plane, to be read slot by slot. */
struct grid_reading {
    const uint64_t *word[GRID_VIEW_PLANES];
    int last[GRID_VIEW_PLANES]; /* 0 if one word is valid for all slots */
};

static inline struct grid_reading grid_read(const struct grid_view *view, int block)
{
    struct grid_reading slots;
    for (int place = 0; place < GRID_VIEW_PLANES; place++) {
        const struct grid_block *one = view->plane[place] + block;
        slots.word[place] = one->each != NULL ? one->each : &one->in_all;
        slots.last[place] = one->each != NULL ? GRID_BLOCK - 1 : 0;
    }
    return slots;
}

/* Prefetch the words of a block; those of its planes are in the cache. */
static inline void grid_read_ahead(const struct grid_view *view, int block)
{
    for (int place = 0; place < GRID_VIEW_PLANES; place++)
        __builtin_prefetch(view->plane[place][block].each);
}

/* Return the nodes that are free in a slot of the block that is being read. */
static inline uint64_t grid_free_at(const struct grid_view *view, const struct grid_reading *slots,
                                    int slot)
{
    uint64_t found = slots->word[0][slot & slots->last[0]] & slots->word[1][slot & slots->last[1]]
                     & slots->word[2][slot & slots->last[2]];
    for (int place = 0; place < view->more_count; place++) {
        const struct grid_block *one
            = view->planes[view->more[place]] + view->at + slot / GRID_BLOCK;
        found &= one->each != NULL ? one->each[slot % GRID_BLOCK] : one->in_all;
    }
    return found;
}

/* Return which of some nodes are free in all slots of a short stretch. */
static inline uint64_t grid_free_in(const struct grid_view *view, uint64_t fits, int start,
                                    int end)
{
    while (start < end && fits) {
        struct grid_reading slots = grid_read(view, start / GRID_BLOCK);
        int top = (start / GRID_BLOCK + 1) * GRID_BLOCK;
        for (; start < end && start < top; start++)
            fits &= grid_free_at(view, &slots, start);
    }
    return fits;
}

/* What the check of a window found beside the free nodes. */
struct grid_edge {
    int last;           /* the slot nearest to the window's start in which another node drops out */
    int block;          /* the block of that slot instead of the slot, or -1 */
    uint64_t before;    /* nodes that are free after that block */
    uint64_t left_over; /* if none is free: nodes that are free after the slot that left none */
};

/* Return which of some nodes are free over a window.
 *
 * `last` of the edge stays unchanged if all are.
 */
static inline uint64_t grid_sweep(const struct grid_view *view, uint64_t fits, int start, int end,
                                  struct grid_edge *edge)
{
    int slot = end - 1;
    struct grid_reading slots;
    edge->block = -1;
    edge->before = edge->left_over = fits;
    if (view->plane[0] == NULL)
        return fits;
    grid_read_ahead(view, slot / GRID_BLOCK);
    grid_read_ahead(view, start / GRID_BLOCK);
    while (slot >= start && fits) {
        int block = slot / GRID_BLOCK, bottom = block * GRID_BLOCK;
        uint64_t now = fits & grid_free_block(view, block);
        if (bottom > start)
            grid_read_ahead(view, block - 1);
        /* The block may reach beyond the window, and less may be free there. */
        if (now == fits) {
            slot = bottom - 1;
            continue;
        }
        if (now && bottom >= start && slot == bottom + GRID_BLOCK - 1) {
            edge->before = fits;
            edge->block = block;
            fits = now;
            slot = bottom - 1;
            continue;
        }
        bottom = bottom < start ? start : bottom;
        slots = grid_read(view, block);
        for (; slot >= bottom; slot--) {
            now = fits & grid_free_at(view, &slots, slot);
            if (now == fits)
                continue;
            edge->left_over = fits;
            edge->last = slot;
            edge->block = -1;
            fits = now;
            if (!fits)
                return 0;
        }
    }
    return fits;
}

/* Return the first slot of the last window in which some node is not free that is free after it. */
static inline int grid_edge_slot(const struct grid_view *view, const struct grid_edge *edge)
{
    uint64_t before = edge->before;
    int last = edge->last;
    struct grid_reading slots;
    if (edge->block < 0)
        return last;
    slots = grid_read(view, edge->block);
    for (int slot = (edge->block + 1) * GRID_BLOCK - 1; slot >= edge->block * GRID_BLOCK; slot--) {
        uint64_t now = before & grid_free_at(view, &slots, slot);
        if (now != before)
            last = slot;
        before = now;
    }
    return last;
}

/* Return the nodes free in the first window, from a slot on, that has one; 0 if there is none.
 *
 * slot: becomes that of the window. ends: of each window, by its first slot.
 */
static inline uint64_t grid_climb(const struct grid_view *view, uint64_t nodes, int *slot,
                                  const int16_t *ends, int slots)
{
    struct grid_edge edge = {slots, -1, 0, 0};
    int at = *slot, end, later_end;
    uint64_t fits = 0;
    while (at < slots && !fits) {
        end = ends[at];
        fits = grid_sweep(view, nodes, at, end, &edge);
        while (!fits) {
            /* No node is free across the slot that left none; after it some are, until end. */
            at = edge.last + 1;
            if (at >= slots || at >= end)
                break;
            later_end = ends[at];
            fits = grid_free_in(view, edge.left_over, end, later_end);
            if (!fits)
                fits = grid_sweep(view, nodes, at, later_end, &edge);
            end = later_end;
        }
    }
    *slot = at;
    return fits;
}

/* Prefetch what is read first of a window. */
static inline void grid_view_fetch(const struct grid_view *view, int start, int end)
{
    for (int place = 0; place < GRID_VIEW_PLANES; place++) {
        __builtin_prefetch(view->plane[place] + (end - 1) / GRID_BLOCK);
        __builtin_prefetch(view->plane[place] + start / GRID_BLOCK);
    }
}

#endif
