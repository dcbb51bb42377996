/* A histogram of nanoseconds with a relative width of 1/4096. */

#ifndef BENCHMARKS_HISTOGRAM_H
#define BENCHMARKS_HISTOGRAM_H

#include <stdint.h>

enum { PARTS_BITS = 12, PARTS = 1 << PARTS_BITS, BUCKETS = (64 - PARTS_BITS) * PARTS };

struct histogram {
    uint64_t count, sum, largest;
    uint64_t buckets[BUCKETS];
};

static inline unsigned bucket_of(uint64_t value)
{
    if (value < 2 * PARTS) {
        return (unsigned)value;
    }
    unsigned shift = 63 - PARTS_BITS - (unsigned)__builtin_clzll(value);
    return shift * PARTS + (unsigned)(value >> shift);
}

static inline uint64_t middle_of(unsigned bucket)
{
    if (bucket < 2 * PARTS) {
        return bucket;
    }
    unsigned shift = bucket / PARTS - 1;
    uint64_t low = (uint64_t)(PARTS + bucket % PARTS) << shift;
    return low + ((uint64_t)1 << shift) / 2;
}

static inline void histogram_add(struct histogram *histogram, int64_t value)
{
    uint64_t counted = value < 0 ? 0 : (uint64_t)value;
    histogram->count++;
    histogram->sum += counted;
    histogram->buckets[bucket_of(counted)]++;
    if (counted > histogram->largest) {
        histogram->largest = counted;
    }
}

/* The value that `share` of all values do not exceed; 0 of an empty histogram. */
static inline uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->count), seen = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen > wanted) {
            return middle_of(bucket);
        }
    }
    return histogram->largest;
}

#endif
