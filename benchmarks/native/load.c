/* A closed loop of callers: each connection sends its request again as soon as it has the answer,
   or, where there is a `rate`, when it is its turn again: then a request begins every 1/rate seconds
   whatever became of those before it, as long as one of the connections is free.

   load PORT REQUEST-FILE [connections=N] [warmup=SECONDS] [seconds=SECONDS] [requests=N] [hold=1]
        [bytes=N] [events=N] [spread=SECONDS] [rate=N]

   The file holds the whole request, head and body. The digits of an X-Request-Id in it count up, so
   that no two heads are the same. An answer counts when its status is 200, its
   framing is complete, and it has exactly `bytes` bytes or at least `events` events, where given.
   It prints "measuring" after the warm-up and a JSON object at the end, which comes after
   `seconds` or, where given, after `requests` answers. The connections are opened within `spread`,
   so that callers of a slow upstream do not stay in step. With `hold` it waits until every connection
   has got the first byte of its answer's body, prints "holding", and ends with its standard input. */

#include "histogram.h"
#include "options.h"
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ = 256 * 1024, HEAD = 16 * 1024, BATCH = 512, OPENING = 64, REPORTED = 5, DIGITS = 16 };
enum framing { LENGTH, CHUNKED };
enum chunk_state { SIZE, DATA, AFTER_DATA, TRAILER };

struct caller {
    int fd;
    bool connecting, held, writing, fresh;
    size_t sent;
    int64_t began;
    char head[HEAD];
    size_t head_length;
    bool in_body, last_newline;
    enum framing framing;
    enum chunk_state chunk_state;
    size_t left, line;
    uint64_t body, events;
    bool idle;           /* whether it waits for its turn */
    bool due;            /* whether its turn has come, and it only has to connect again */
    struct caller *next; /* whose turn is after its own */
};

static char *input;
static int poller, opening, opened, held;
static struct caller *first_idle, *last_idle;
static int64_t turn_at; /* when the next request begins, once all connections are open; else 0 */
static bool measuring, over;
static int64_t begin_at, end_at;
static struct histogram latency, first_byte;
static uint64_t answers, all_answers, events, body_bytes, errors, reconnects;
static struct rusage usage_before;

/* Errors are counted, and the first ones are told. */
static void note(const char *what, const struct caller *caller)
{
    if (errors++ < REPORTED) {
        const char *line = caller->head_length > 0 ? caller->head : "";
        fprintf(stderr, "%s; the answer began with: %.*s\n", what, (int)strcspn(line, "\r\n"), line);
    }
}

static void open_connection(struct caller *caller)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wanted.port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int on = 1;
    caller->fd = must_work(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    setsockopt(caller->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    caller->connecting = caller->fresh = true;
    caller->writing = true;
    opening++;
    int result = connect(caller->fd, (struct sockaddr *)&address, sizeof address);
    if (result < 0 && errno != EINPROGRESS) {
        must_work(result, "connect");
    }
    struct epoll_event event = {EPOLLIN | EPOLLOUT, {.ptr = caller}};
    must_work(epoll_ctl(poller, EPOLL_CTL_ADD, caller->fd, &event), "epoll_ctl");
}

static void watch(struct caller *caller, bool writes)
{
    if (caller->writing != writes) {
        caller->writing = writes;
        struct epoll_event event = {EPOLLIN | (writes ? EPOLLOUT : 0), {.ptr = caller}};
        must_work(epoll_ctl(poller, EPOLL_CTL_MOD, caller->fd, &event), "epoll_ctl");
    }
}

static void open_again(struct caller *caller)
{
    if (caller->connecting) {
        opening--;
        note("a connection could not be opened", caller);
    }
    close(caller->fd);
    if (errors > 1000) {
        over = true;
        return;
    }
    open_connection(caller);
}

static void lose(struct caller *caller, const char *why)
{
    note(why, caller);
    open_again(caller);
}

/* Requests. */

static void send_rest(struct caller *caller)
{
    size_t left = request_length - caller->sent;
    ssize_t sent = left == 0 ? 0 : send(caller->fd, request + caller->sent, left, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        sent = 0; /* whatever the server said before it closed is read first */
        left = 0;
        caller->sent = request_length;
    }
    caller->sent += sent > 0 ? (size_t)sent : 0;
    watch(caller, caller->sent < request_length);
}

/* Requests that are the same but for one number: its digits, or none. */
static char *number;
static unsigned long long next_number;

static void find_number(void)
{
    static const char name[] = "X-Request-Id: ";
    char *found = memmem(request, request_length, name, sizeof name - 1);
    number = found == NULL ? NULL : found + sizeof name - 1;
}

static void count_up(void)
{
    char digits[DIGITS + 1];
    snprintf(digits, sizeof digits, "%0*llu", DIGITS, next_number++);
    memcpy(number, digits, DIGITS);
}

static void send_request(struct caller *caller)
{
    if (number != NULL) {
        count_up();
    }
    caller->sent = caller->head_length = 0;
    caller->in_body = false;
    caller->body = caller->events = 0;
    caller->began = now_ns();
    send_rest(caller);
}

static void wait_for_turn(struct caller *caller)
{
    caller->idle = true;
    caller->next = NULL;
    caller->head_length = 0;
    watch(caller, false);
    if (first_idle == NULL) {
        first_idle = caller;
    } else {
        last_idle->next = caller;
    }
    last_idle = caller;
}

static void connected(struct caller *caller)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(caller->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        lose(caller, strerror(error));
        return;
    }
    caller->connecting = false;
    if (!wanted.hold) {
        opening--;
    }
    if (wanted.rate == 0 || caller->due) {
        caller->due = false;
        send_request(caller);
    } else if (!caller->idle) {
        wait_for_turn(caller);
    }
}

/* Turns. */

static void take_turns(void)
{
    if (turn_at == 0 && opened == wanted.connections && opening == 0) {
        turn_at = now_ns();
    }
    while (turn_at > 0 && turn_at <= now_ns()) {
        turn_at += (int64_t)(1e9 / wanted.rate);
        struct caller *caller = first_idle;
        if (caller == NULL) {
            errors++;
            fprintf(stderr, "a request could not begin: no connection was free\n");
            continue;
        }
        first_idle = caller->next;
        caller->idle = false;
        caller->due = caller->fd < 0;
        if (caller->due) {
            open_connection(caller);
        } else {
            send_request(caller);
        }
    }
}

/* Waits for `most` milliseconds or, more exactly than epoll_wait can, until the next turn. */
static int wait_for_events(struct epoll_event *happened, int most)
{
    if (turn_at > 0) {
        int64_t left = turn_at - now_ns();
        left = left < 0 ? 0 : left < most * 1000000LL ? left : most * 1000000LL;
        struct timespec time = {.tv_nsec = left};
        struct pollfd any = {.fd = poller, .events = POLLIN};
        ppoll(&any, 1, &time, NULL);
        most = 0;
    }
    return epoll_wait(poller, happened, BATCH, most);
}

/* Answers. */

static void finish(struct caller *caller)
{
    bool right = strncmp(caller->head + 8, " 200", 4) == 0;
    right = right && (wanted.bytes < 0 || caller->body == (uint64_t)wanted.bytes);
    right = right && (wanted.events < 0 || caller->events >= (uint64_t)wanted.events);
    int64_t now = now_ns();
    if (!right) {
        note("not the wanted answer", caller);
        over = over || errors > 1000;
    } else if (measuring) {
        answers++;
        histogram_add(&latency, now - caller->began);
    }
    all_answers++;
    caller->fresh = false;
    const char *connection = field_value(caller->head, caller->head_length, "connection:");
    bool closes = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    if (wanted.requests > 0 && all_answers >= (uint64_t)wanted.requests) {
        over = true;
    } else if (closes) {
        reconnects++;
        open_again(caller);
    } else if (wanted.rate > 0) {
        wait_for_turn(caller);
    } else {
        send_request(caller);
    }
}

static void count_body(struct caller *caller, const char *data, size_t length)
{
    if (length == 0) {
        return;
    }
    if (caller->body == 0 && wanted.hold && !caller->held) {
        caller->held = true;
        held++;
        opening--;
    }
    caller->body += length;
    uint64_t before = caller->events;
    for (size_t i = 0; wanted.events >= 0 && i < length; i++) {
        bool newline = data[i] == '\n';
        caller->events += newline && caller->last_newline;
        caller->last_newline = newline && !caller->last_newline;
    }
    if (measuring) {
        body_bytes += length;
        events += caller->events - before;
    }
}

/* Takes chunks apart; whether the answer is complete. */
static bool take_chunked(struct caller *caller, const char *data, size_t length)
{
    while (length > 0) {
        size_t used = 1;
        if (caller->chunk_state == DATA) {
            used = length < caller->left ? length : caller->left;
            count_body(caller, data, used);
            caller->left -= used;
            caller->chunk_state = caller->left == 0 ? AFTER_DATA : DATA;
        } else if (caller->chunk_state == AFTER_DATA) {
            caller->chunk_state = *data == '\n' ? SIZE : AFTER_DATA;
        } else if (*data == '\n') {
            if (caller->chunk_state == TRAILER && caller->line == 0) {
                return true;
            }
            if (caller->chunk_state == SIZE) {
                caller->chunk_state = caller->left == 0 ? TRAILER : DATA;
            }
            caller->line = 0;
        } else if (*data != '\r') {
            caller->line++;
            if (caller->chunk_state == SIZE) {
                int digit = *data <= '9' ? *data - '0' : (*data | 32) - 'a' + 10;
                caller->left = caller->left * 16 + (size_t)digit;
            }
        }
        data += used;
        length -= used;
    }
    return false;
}

static bool take_body(struct caller *caller, const char *data, size_t length)
{
    if (caller->framing == CHUNKED) {
        return take_chunked(caller, data, length);
    }
    size_t used = length < caller->left ? length : caller->left;
    count_body(caller, data, used);
    caller->left -= used;
    return caller->left == 0;
}

static bool read_framing(struct caller *caller)
{
    const char *length = field_value(caller->head, caller->head_length, "content-length:");
    const char *coding = field_value(caller->head, caller->head_length, "transfer-encoding:");
    caller->framing = length != NULL ? LENGTH : CHUNKED;
    caller->left = length != NULL ? (size_t)strtoull(length, NULL, 10) : 0;
    caller->chunk_state = SIZE;
    caller->line = 0;
    caller->last_newline = false;
    caller->in_body = true;
    return length != NULL || coding != NULL;
}

static void take(struct caller *caller, const char *data, size_t length)
{
    if (!caller->in_body) {
        if (caller->head_length == 0 && measuring) {
            histogram_add(&first_byte, now_ns() - caller->began);
        }
        size_t before = caller->head_length;
        size_t part = length < HEAD - 1 - before ? length : HEAD - 1 - before;
        memcpy(caller->head + before, data, part);
        caller->head[before + part] = '\0';
        size_t end = head_length(caller->head, before + part);
        if (end == 0) {
            caller->head_length = before + part;
            return;
        }
        caller->head_length = end;
        if (!read_framing(caller)) {
            lose(caller, "an answer without framing");
            return;
        }
        data += end - before;
        length -= end - before;
    }
    if (take_body(caller, data, length)) {
        finish(caller);
    }
}

static void receive(struct caller *caller)
{
    ssize_t received = recv(caller->fd, input, READ, 0);
    if (received > 0) {
        take(caller, input, (size_t)received);
    } else if (received == 0 || errno != EAGAIN) {
        /* Closing an idle connection is a server's right; closing one that it answers is not. */
        if (!caller->fresh && caller->head_length == 0 && received == 0) {
            reconnects++;
            if (caller->idle) {
                close(caller->fd);
                caller->fd = -1; /* it is opened again when it has something to say */
            } else {
                open_again(caller);
            }
        } else {
            lose(caller, "the connection closed under an answer");
        }
    }
}

static void handle(struct caller *caller, uint32_t happened)
{
    if (caller->connecting) {
        connected(caller);
        return;
    }
    if ((happened & EPOLLOUT) != 0) {
        send_rest(caller);
    }
    if ((happened & ~(uint32_t)EPOLLOUT) != 0) {
        receive(caller);
    }
}

/* The loop. */

static void begin_measuring(int64_t now)
{
    measuring = true;
    begin_at = now;
    getrusage(RUSAGE_SELF, &usage_before);
    printf("measuring\n");
    fflush(stdout);
}

static void open_next(struct caller *callers, int64_t start)
{
    double apart = wanted.spread * 1e9 / (double)wanted.connections;
    while (opening < OPENING && opened < wanted.connections
           && now_ns() - start >= (int64_t)(apart * opened)) {
        open_connection(&callers[opened++]);
    }
}

static void run(struct caller *callers)
{
    struct epoll_event happened[BATCH];
    int64_t start = now_ns();
    int64_t measure_at = start + (int64_t)(wanted.warmup * 1e9);
    int64_t last_at = measure_at + (int64_t)(wanted.seconds * 1e9);
    while (!over) {
        open_next(callers, start);
        if (wanted.rate > 0) {
            take_turns();
        }
        int count = wait_for_events(happened, opened < wanted.connections ? 1 : 10);
        for (int i = 0; i < count && !over; i++) {
            handle(happened[i].data.ptr, happened[i].events);
        }
        int64_t now = now_ns();
        if (!measuring && !wanted.hold && now >= measure_at) {
            begin_measuring(now);
        }
        if (wanted.hold && !measuring && held == wanted.connections) {
            begin_measuring(now);
            printf("holding\n");
            fflush(stdout);
        }
        if (wanted.hold) {
            struct pollfd end = {.fd = 0, .events = POLLIN};
            over = over || poll(&end, 1, 0) > 0;
        } else {
            over = over || (wanted.requests == 0 && now >= last_at);
        }
        end_at = now;
    }
}

static double cpu_seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec)
           + (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

static void print_quantiles(const char *name, const struct histogram *histogram)
{
    double mean = histogram->count ? (double)histogram->sum / (double)histogram->count : 0;
    printf("\"%s\":{\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"max\":%.2f,\"mean\":%.2f},", name,
           (double)histogram_quantile(histogram, 0.50) / 1e3,
           (double)histogram_quantile(histogram, 0.90) / 1e3,
           (double)histogram_quantile(histogram, 0.99) / 1e3, (double)histogram->largest / 1e3,
           mean / 1e3);
}

static void report(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{");
    print_quantiles("latency_us", &latency);
    print_quantiles("first_byte_us", &first_byte);
    printf("\"answers\":%lu,\"all_answers\":%lu,\"events\":%lu,\"body_bytes\":%lu,"
           "\"errors\":%lu,\"reconnects\":%lu,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n",
           answers, all_answers, events, body_bytes, errors, reconnects,
           (double)(end_at - begin_at) / 1e9, cpu_seconds(&usage) - cpu_seconds(&usage_before));
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: load PORT REQUEST-FILE [option=value ...]\n");
        return 2;
    }
    wanted.port = atoi(arguments[1]);
    read_request(arguments[2]);
    find_number();
    for (int i = 3; i < count; i++) {
        read_option(arguments[i]);
    }
    input = must_have(malloc(READ));
    poller = must_work(epoll_create1(0), "epoll_create1");
    run(must_have(calloc((size_t)wanted.connections, sizeof(struct caller))));
    report();
    return 0;
}
