/* Which of 64 nodes are free over a window of slots: a bit per node, a word per slot.
 *
 * Nodes are looked up in one plane per resource; words of blocks of slots, the summaries, say which
 * nodes are free in all of a block. Windows are read from their end: where the last node drops out,
 * the next window to try begins behind.
 */
#ifndef PYSLURM_GRID_PLANES_H
#define PYSLURM_GRID_PLANES_H

#include "_grid.h"

enum { GRID_VIEW_PLANES = 3 }; /* most requests have as many or fewer */

/* What the planes of a request say of one word of nodes. */
struct grid_view {
    const uint64_t *plane[GRID_VIEW_PLANES];   /* by slot; where there are fewer, one stands twice */
    const uint64_t *summary[GRID_VIEW_PLANES]; /* by block */
    uint64_t *const *planes, *const *summaries; /* of all words */
    const int *more;                           /* numbers of further planes */
    int more_count;
    size_t at, block_at; /* where the word's slots and blocks begin */
};

static inline void grid_look(struct grid_view *view, uint64_t *const *planes,
                             uint64_t *const *summaries, const int *numbers, int count, int word,
                             int blocks)
{
    view->planes = planes;
    view->summaries = summaries;
    view->at = (size_t)word * blocks * GRID_BLOCK;
    view->block_at = (size_t)word * blocks;
    for (int place = 0; place < GRID_VIEW_PLANES; place++) {
        int number = numbers[place < count ? place : 0];
        view->plane[place] = count ? planes[number] + view->at : NULL;
        view->summary[place] = count ? summaries[number] + view->block_at : NULL;
    }
    view->more = numbers + GRID_VIEW_PLANES;
    view->more_count = count > GRID_VIEW_PLANES ? count - GRID_VIEW_PLANES : 0;
}

/* Return the nodes that are free in a slot. */
static inline uint64_t grid_free_at(const struct grid_view *view, int slot)
{
    uint64_t found = view->plane[0][slot] & view->plane[1][slot] & view->plane[2][slot];
    for (int place = 0; place < view->more_count; place++)
        found &= view->planes[view->more[place]][view->at + slot];
    return found;
}

/* Return the nodes that are free in all slots of a block. */
static inline uint64_t grid_free_block(const struct grid_view *view, int block)
{
    uint64_t found = view->summary[0][block] & view->summary[1][block] & view->summary[2][block];
    for (int place = 0; place < view->more_count; place++)
        found &= view->summaries[view->more[place]][view->block_at + block];
    return found;
}

/* Return which of some nodes are free in all slots of a short stretch. */
static inline uint64_t grid_free_in(const struct grid_view *view, uint64_t fits, int start,
                                    int end)
{
    for (int slot = start; slot < end; slot++)
        fits &= grid_free_at(view, slot);
    return fits;
}

/* What a look at a window found beside the nodes that are free. */
struct grid_edge {
    int last;           /* the slot nearest to the window's start that one of the others drops out in */
    int block;          /* instead of a slot the block in which that is, or -1 */
    uint64_t before;    /* which were free behind that block */
    uint64_t left_over; /* where none is free: which were behind the slot that left none */
};

/* Return which of some nodes are free over a window.
 *
 * `last` of the edge stays as it is where all are.
 */
static inline uint64_t grid_sweep(const struct grid_view *view, uint64_t fits, int start, int end,
                                  struct grid_edge *edge)
{
    int slot = end - 1;
    edge->block = -1;
    edge->before = edge->left_over = fits;
    if (view->plane[0] == NULL)
        return fits;
    while (slot >= start && fits) {
        int block = slot / GRID_BLOCK, bottom = block * GRID_BLOCK;
        uint64_t now = fits & grid_free_block(view, block);
        /* The block may reach beyond the window, where less may be free. */
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
        for (; slot >= bottom; slot--) {
            now = fits & grid_free_at(view, slot);
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

/* Return the first slot of a window just looked at in which not all are free that are after it. */
static inline int grid_edge_slot(const struct grid_view *view, const struct grid_edge *edge)
{
    uint64_t before = edge->before;
    int last = edge->last;
    if (edge->block < 0)
        return last;
    for (int slot = (edge->block + 1) * GRID_BLOCK - 1; slot >= edge->block * GRID_BLOCK; slot--) {
        uint64_t now = before & grid_free_at(view, slot);
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
            /* Nothing is free across the slot that left none; behind it something is, until end. */
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

/* Let come into the cache what is read first of a window. */
static inline void grid_view_fetch(const struct grid_view *view, int start, int end)
{
    for (int place = 0; place < GRID_VIEW_PLANES; place++) {
        __builtin_prefetch(view->summary[place] + (end - 1) / GRID_BLOCK);
        __builtin_prefetch(view->plane[place] + end - 1);
        __builtin_prefetch(view->plane[place] + start);
    }
}

#endif
