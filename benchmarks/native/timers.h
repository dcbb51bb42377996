/* Timers: a binary heap by due time, and one timerfd that is set to its top. */

#ifndef BENCHMARKS_TIMERS_H
#define BENCHMARKS_TIMERS_H

#include "wire.h"

#include <sys/timerfd.h>
#include <unistd.h>

struct timer {
    int64_t due;  /* nanoseconds of the monotonic clock */
    size_t place; /* in the heap, from 1; 0 when it is not set */
};

struct timers {
    int fd;
    int64_t armed;
    struct timer **heap;
    size_t size, room;
};

static inline void timers_open(struct timers *timers)
{
    memset(timers, 0, sizeof *timers);
    timers->fd = must_work(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), "timerfd_create");
}

static inline void timers_put(struct timers *timers, size_t place, struct timer *timer)
{
    timers->heap[place] = timer;
    timer->place = place;
}

static inline void timers_up(struct timers *timers, size_t place)
{
    struct timer *moved = timers->heap[place];
    while (place > 1 && timers->heap[place / 2]->due > moved->due) {
        timers_put(timers, place, timers->heap[place / 2]);
        place /= 2;
    }
    timers_put(timers, place, moved);
}

static inline void timers_down(struct timers *timers, size_t place)
{
    struct timer *moved = timers->heap[place];
    for (size_t child = place * 2; child <= timers->size; child = place * 2) {
        if (child < timers->size && timers->heap[child + 1]->due < timers->heap[child]->due) {
            child++;
        }
        if (timers->heap[child]->due >= moved->due) {
            break;
        }
        timers_put(timers, place, timers->heap[child]);
        place = child;
    }
    timers_put(timers, place, moved);
}

static inline void timers_set(struct timers *timers, struct timer *timer, int64_t due)
{
    if (timers->size + 2 > timers->room) {
        timers->room = timers->room * 2 + 64;
        timers->heap = must_have(realloc(timers->heap, timers->room * sizeof *timers->heap));
    }
    timer->due = due;
    timers_put(timers, ++timers->size, timer);
    timers_up(timers, timers->size);
}

static inline void timers_drop(struct timers *timers, struct timer *timer)
{
    size_t place = timer->place;
    if (place == 0) {
        return;
    }
    timer->place = 0;
    struct timer *last = timers->heap[timers->size--];
    if (last != timer) {
        timers_put(timers, place, last);
        timers_up(timers, place);
        timers_down(timers, last->place);
    }
}

/* Takes the next timer that is due out of the heap, NULL when there is none. */
static inline struct timer *timers_next(struct timers *timers, int64_t now)
{
    if (timers->size == 0 || timers->heap[1]->due > now) {
        return NULL;
    }
    struct timer *timer = timers->heap[1];
    timers_drop(timers, timer);
    return timer;
}

/* Sets the timerfd to the earliest timer; to be called before each wait. */
static inline void timers_arm(struct timers *timers)
{
    int64_t due = timers->size > 0 ? timers->heap[1]->due : 0;
    if (due == timers->armed) {
        return;
    }
    timers->armed = due;
    struct itimerspec when = {.it_value = {due / 1000000000, due % 1000000000}};
    must_work(timerfd_settime(timers->fd, TFD_TIMER_ABSTIME, &when, NULL), "timerfd_settime");
}

/* Forgets that the timerfd was readable. */
static inline void timers_acknowledge(struct timers *timers)
{
    uint64_t expirations;
    if (read(timers->fd, &expirations, sizeof expirations) < 0 && errno != EAGAIN) {
        perror("timerfd");
    }
    timers->armed = 0;
}

#endif
