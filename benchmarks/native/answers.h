/* What the scripted upstream says. */

#ifndef BENCHMARKS_ANSWERS_H
#define BENCHMARKS_ANSWERS_H

#include "wire.h"

struct text {
    const char *data;
    size_t length;
};

#define EVENT_START                                                                                \
    "data: {\"id\":\"chatcmpl-benchmark\",\"object\":\"chat.completion.chunk\","                   \
    "\"created\":1700000000,\"model\":\"bench\",\"choices\":"

static const char EVENT[] =
    EVENT_START "[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
static const char LAST_EVENT[] =
    EVENT_START "[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
static const char USAGE_EVENT[] =
    EVENT_START "[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":200,"
                "\"total_tokens\":300}}\n\n";
static const char DONE_EVENT[] = "data: [DONE]\n\n";
static const char STREAM_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char JSON_HEAD[] =
    "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n";
static const char REFUSAL[] = "{\"error\":{\"message\":\"too many requests, by the script\"}}";
static const char UNKNOWN[] = "{\"error\":{\"message\":\"no such script\"}}";
static const char BEFORE_CONTENT[] =
    "{\"id\":\"chatcmpl-benchmark\",\"object\":\"chat.completion\",\"created\":1700000000,"
    "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
    "\"content\":\"";
static const char AFTER_CONTENT[] =
    "\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":100,"
    "\"completion_tokens\":200,\"total_tokens\":300}}";

static inline struct text joined(const char *first, const char *second)
{
    size_t length = strlen(first) + strlen(second);
    char *data = must_have(malloc(length + 1));
    strcpy(data, first);
    strcat(data, second);
    return (struct text){data, length};
}

/* `data` as one chunk of a chunked body, and `after` behind it. */
static inline struct text chunk(const char *data, const char *after)
{
    char *framed = must_have(malloc(strlen(data) + 32));
    sprintf(framed, "%zx\r\n%s\r\n", strlen(data), data);
    struct text text = joined(framed, after);
    free(framed);
    return text;
}

static inline struct text json_answer(const char *status, const char *body)
{
    char head[256];
    snprintf(head, sizeof head, JSON_HEAD, status, strlen(body));
    return joined(head, body);
}

/* A chat completion of `size` bytes with its head. */
static inline struct text completion(size_t size)
{
    size_t fixed = strlen(BEFORE_CONTENT) + strlen(AFTER_CONTENT);
    size_t filling = size > fixed ? size - fixed : 0;
    char *body = must_have(malloc(fixed + filling + 1));
    strcpy(body, BEFORE_CONTENT);
    memset(body + strlen(BEFORE_CONTENT), 'x', filling);
    strcpy(body + strlen(BEFORE_CONTENT) + filling, AFTER_CONTENT);
    struct text text = json_answer("200 OK", body);
    free(body);
    return text;
}

#endif
