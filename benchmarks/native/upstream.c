/* A scripted upstream that is never the limit: one thread, epoll, HTTP/1.1 keep-alive.

   The first segment of the path is the script:
     /json1024/...          a chat completion of 1024 bytes
     /wait50/...            the same, after 50 ms
     /throttled/...         429 to the credential "bench-throttled", else the same
     /events200/...         a stream of 200 events, each in a write of its own, as fast as they go
     /events200every5/...   one event every 5 ms
     /count                 how many requests of each script there were
   It listens on a free port of the loopback and prints its number. */

#include "answers.h"
#include "timers.h"
#include "wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { KEPT = 16 * 1024, READ = 256 * 1024, BATCH = 512, SIZES = 8, BACKLOG = 4096 };
enum script { COMPLETION, THROTTLED, EVENTS, COUNT, NOTHING, SCRIPTS };

struct connection {
    struct timer timer; /* the first member, so that one leads to the other */
    int fd;
    char *kept; /* the head and the beginning of the body, terminated */
    size_t kept_length, body_left;
    bool head_read;
    enum script script;
    long size, events, sent_events, every_ms;
    bool wants_usage, refused;
    struct text out; /* what is left of the piece that is being sent */
    bool watching_writes, is_ready, closed;
    struct connection *next; /* in one of the two lists below */
};

static int listener, poller;
static struct timers timers;
static char *input;
static struct text event, first_event, last_event, usage_event, done_event, refusal, unknown, total;
static struct {
    long size;
    struct text text;
} completions[SIZES];
static struct connection *ready, *dead;
static long counts[SCRIPTS];

static void make_texts(void)
{
    event = chunk(EVENT, "");
    first_event = joined(STREAM_HEAD, event.data);
    last_event = chunk(LAST_EVENT, "");
    usage_event = chunk(USAGE_EVENT, "");
    done_event = chunk(DONE_EVENT, "0\r\n\r\n");
    refusal = json_answer("429 Too Many Requests", REFUSAL);
    unknown = json_answer("404 Not Found", UNKNOWN);
}

static struct text completion_of(long size)
{
    int place = 0;
    while (place < SIZES - 1 && completions[place].size != 0 && completions[place].size != size) {
        place++;
    }
    if (completions[place].size != size) {
        free((char *)completions[place].text.data);
        completions[place].size = size;
        completions[place].text = completion((size_t)size);
    }
    return completions[place].text;
}

static struct text count_of_requests(void)
{
    char body[256];
    snprintf(body, sizeof body, "{\"completion\":%ld,\"throttled\":%ld,\"events\":%ld}",
             counts[COMPLETION], counts[THROTTLED], counts[EVENTS]);
    free((char *)total.data);
    total = json_answer("200 OK", body);
    return total;
}

/* Sending. */

static void end(struct connection *connection)
{
    if (connection->closed) {
        return;
    }
    connection->closed = true;
    timers_drop(&timers, &connection->timer);
    close(connection->fd);
    if (!connection->is_ready) {
        connection->next = dead;
        dead = connection;
    }
}

static void watch(struct connection *connection, bool writes)
{
    if (connection->watching_writes != writes) {
        connection->watching_writes = writes;
        struct epoll_event wanted = {EPOLLIN | (writes ? EPOLLOUT : 0), {.ptr = connection}};
        must_work(epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, &wanted), "epoll_ctl");
    }
}

/* Whether everything that was to be sent has been. */
static bool flush(struct connection *connection)
{
    struct text *out = &connection->out;
    ssize_t sent = send(connection->fd, out->data, out->length, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        end(connection);
        return false;
    }
    if (sent > 0) {
        out->data += sent;
        out->length -= (size_t)sent;
    }
    watch(connection, out->length > 0);
    return out->length == 0;
}

static void expect_request(struct connection *connection)
{
    connection->head_read = false;
    connection->kept_length = connection->body_left = 0;
    connection->script = NOTHING;
}

/* What follows when all that was due has been sent. */
static void go_on(struct connection *connection)
{
    bool streaming = connection->script == EVENTS;
    if (!streaming || connection->sent_events > connection->events + 2) {
        expect_request(connection);
    } else if (connection->every_ms > 0 && connection->sent_events <= connection->events) {
        int64_t due = connection->timer.due + connection->every_ms * 1000000;
        timers_set(&timers, &connection->timer, due);
    } else if (!connection->is_ready) {
        connection->is_ready = true;
        connection->next = ready;
        ready = connection;
    }
}

static struct text next_event(struct connection *connection)
{
    long number = connection->sent_events++;
    if (number < connection->events) {
        return number == 0 ? first_event : event;
    }
    if (number == connection->events) {
        return last_event;
    }
    if (number == connection->events + 1 && connection->wants_usage) {
        return usage_event;
    }
    connection->sent_events = connection->events + 3;
    return done_event;
}

static struct text next_piece(struct connection *connection)
{
    switch (connection->script) {
    case EVENTS:
        return next_event(connection);
    case COMPLETION:
    case THROTTLED:
        return connection->refused ? refusal : completion_of(connection->size);
    case COUNT:
        return count_of_requests();
    default:
        return unknown;
    }
}

static void send_next(struct connection *connection)
{
    connection->out = next_piece(connection);
    if (flush(connection)) {
        go_on(connection);
    }
}

/* Requests. */

static void read_script(struct connection *connection)
{
    const char *slash = strchr(connection->kept, '/');
    const char *path = slash == NULL ? "" : slash;
    long first = 0, every = 0, wait = 0;
    connection->script = NOTHING;
    connection->size = 1024;
    if (sscanf(path, "/json%ld", &first) == 1) {
        connection->script = COMPLETION;
        connection->size = first;
    } else if (sscanf(path, "/wait%ld", &wait) == 1) {
        connection->script = COMPLETION;
    } else if (sscanf(path, "/events%ldevery%ld", &first, &every) >= 1) {
        connection->script = EVENTS;
        connection->events = first;
        connection->every_ms = every;
    } else if (strncmp(path, "/throttled/", 11) == 0) {
        connection->script = THROTTLED;
    } else if (strncmp(path, "/count", 6) == 0) {
        connection->script = COUNT;
    }
    connection->timer.due = now_ns() + wait * 1000000;
}

static void read_fields(struct connection *connection, size_t length)
{
    const char *credential = field_value(connection->kept, length, "authorization:");
    const char *announced = field_value(connection->kept, length, "content-length:");
    connection->refused = connection->script == THROTTLED && credential != NULL
                          && strncmp(credential, "Bearer bench-throttled", 22) == 0;
    connection->body_left = announced == NULL ? 0 : (size_t)strtoull(announced, NULL, 10);
}

static void answer(struct connection *connection)
{
    counts[connection->script]++;
    connection->sent_events = 0;
    connection->wants_usage = strstr(connection->kept, "\"include_usage\":true") != NULL;
    if (connection->timer.due > now_ns()) {
        timers_set(&timers, &connection->timer, connection->timer.due);
    } else {
        send_next(connection);
    }
}

static void keep(struct connection *connection, size_t received)
{
    size_t room = KEPT - 1 - connection->kept_length;
    size_t part = received < room ? received : room;
    memcpy(connection->kept + connection->kept_length, input, part);
    connection->kept_length += part;
    connection->kept[connection->kept_length] = '\0';
}

static void take(struct connection *connection, size_t received)
{
    size_t of_body = received;
    size_t before = connection->kept_length;
    if (connection->head_read && connection->body_left == 0) {
        end(connection); /* nobody here sends the next request before its turn */
        return;
    }
    keep(connection, received);
    if (!connection->head_read) {
        size_t length = head_length(connection->kept, connection->kept_length);
        if (length == 0) {
            return;
        }
        connection->head_read = true;
        read_script(connection);
        read_fields(connection, length);
        of_body = before + received - length;
    }
    connection->body_left -= of_body < connection->body_left ? of_body : connection->body_left;
    if (connection->body_left == 0) {
        answer(connection);
    }
}

static void receive(struct connection *connection)
{
    ssize_t received = recv(connection->fd, input, READ, 0);
    if (received > 0) {
        take(connection, (size_t)received);
    } else if (received == 0 || errno != EAGAIN) {
        end(connection);
    }
}

static void accept_all(void)
{
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *connection = must_have(calloc(1, sizeof *connection));
        connection->fd = fd;
        connection->kept = must_have(malloc(KEPT));
        expect_request(connection);
        struct epoll_event wanted = {EPOLLIN, {.ptr = connection}};
        must_work(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
    }
}

/* The loop. */

static void run_timers(void)
{
    struct timer *timer;
    timers_acknowledge(&timers);
    int64_t now = now_ns();
    while ((timer = timers_next(&timers, now)) != NULL) {
        send_next((struct connection *)timer);
    }
}

/* One event for each stream that goes as fast as it can. */
static void run_ready(void)
{
    struct connection *connection = ready;
    ready = NULL;
    while (connection != NULL) {
        struct connection *next = connection->next;
        connection->is_ready = false;
        if (connection->closed) {
            connection->next = dead;
            dead = connection;
        } else {
            send_next(connection);
        }
        connection = next;
    }
}

static void bury(void)
{
    while (dead != NULL) {
        struct connection *next = dead->next;
        free(dead->kept);
        free(dead);
        dead = next;
    }
}

static void handle(struct connection *connection, uint32_t happened)
{
    if (!connection->closed && (happened & EPOLLOUT) != 0 && flush(connection)) {
        go_on(connection);
    }
    if (!connection->closed && (happened & ~(uint32_t)EPOLLOUT) != 0) {
        receive(connection);
    }
}

static void serve(void)
{
    struct epoll_event happened[BATCH];
    for (;;) {
        int count = epoll_wait(poller, happened, BATCH, ready != NULL ? 0 : -1);
        for (int i = 0; i < count; i++) {
            if (happened[i].data.ptr == &listener) {
                accept_all();
            } else if (happened[i].data.ptr == &timers) {
                run_timers();
            } else {
                handle(happened[i].data.ptr, happened[i].events);
            }
        }
        run_ready();
        timers_arm(&timers);
        bury();
    }
}

static void listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    listener = must_work(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
    must_work(bind(listener, (struct sockaddr *)&address, size), "bind");
    must_work(listen(listener, BACKLOG), "listen");
    must_work(getsockname(listener, (struct sockaddr *)&address, &size), "getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
}

int main(void)
{
    input = must_have(malloc(READ));
    make_texts();
    timers_open(&timers);
    poller = must_work(epoll_create1(0), "epoll_create1");
    listen_on_loopback();
    struct epoll_event wanted = {EPOLLIN, {.ptr = &listener}};
    must_work(epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted), "epoll_ctl");
    wanted.data.ptr = &timers;
    must_work(epoll_ctl(poller, EPOLL_CTL_ADD, timers.fd, &wanted), "epoll_ctl");
    serve();
}
