/* What both programs need of HTTP/1.1 and of the clock. */

#ifndef BENCHMARKS_WIRE_H
#define BENCHMARKS_WIRE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static inline int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void *must_have(void *memory)
{
    if (memory == NULL) {
        perror("out of memory");
        exit(1);
    }
    return memory;
}

static inline int must_work(int result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

/* Length of the head with its blank line, 0 while that has not come. */
static inline size_t head_length(const char *data, size_t length)
{
    const char *end = memmem(data, length, "\r\n\r\n", 4);
    return end == NULL ? 0 : (size_t)(end - data) + 4;
}

/* The value of a field of a complete head, not terminated; NULL where it is absent.
   `name` is in lower case and ends with its colon. */
static inline const char *field_value(const char *head, size_t length, const char *name)
{
    size_t size = strlen(name);
    const char *line = memchr(head, '\n', length);
    while (line != NULL && (size_t)(line + 1 - head) + size < length) {
        line++;
        if (strncasecmp(line, name, size) == 0) {
            line += size;
            while (*line == ' ') {
                line++;
            }
            return line;
        }
        line = memchr(line, '\n', length - (size_t)(line - head));
    }
    return NULL;
}

#endif
