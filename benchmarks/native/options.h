/* What the load generator is asked for. */

#ifndef BENCHMARKS_OPTIONS_H
#define BENCHMARKS_OPTIONS_H

#include "wire.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    int port;
    long connections, requests, bytes, events;
    double warmup, seconds, spread, rate;
    bool hold;
} wanted = {.connections = 1, .bytes = -1, .events = -1, .warmup = 0.5, .seconds = 2};

static char *request;
static size_t request_length;

static inline void read_request(const char *path)
{
    struct stat found;
    int fd = must_work(open(path, O_RDONLY), path);
    must_work(fstat(fd, &found), path);
    request = must_have(malloc((size_t)found.st_size));
    while (request_length < (size_t)found.st_size) {
        ssize_t part = read(fd, request + request_length, (size_t)found.st_size - request_length);
        must_work(part > 0 ? 0 : -1, path);
        request_length += (size_t)part;
    }
    close(fd);
}

static inline void read_option(const char *option)
{
    const char *value = strchr(option, '=');
    double number = value == NULL ? 0 : strtod(value + 1, NULL);
    size_t size = value == NULL ? strlen(option) : (size_t)(value - option);
    if (strncmp(option, "connections", size) == 0) {
        wanted.connections = (long)number;
    } else if (strncmp(option, "warmup", size) == 0) {
        wanted.warmup = number;
    } else if (strncmp(option, "seconds", size) == 0) {
        wanted.seconds = number;
    } else if (strncmp(option, "requests", size) == 0) {
        wanted.requests = (long)number;
    } else if (strncmp(option, "spread", size) == 0) {
        wanted.spread = number;
    } else if (strncmp(option, "rate", size) == 0) {
        wanted.rate = number;
    } else if (strncmp(option, "hold", size) == 0) {
        wanted.hold = number != 0;
    } else if (strncmp(option, "bytes", size) == 0) {
        wanted.bytes = (long)number;
    } else if (strncmp(option, "events", size) == 0) {
        wanted.events = (long)number;
    } else {
        fprintf(stderr, "unknown option %s\n", option);
        exit(2);
    }
}

#endif
