/* The functions of lds_serve.h: one thread that hears its clients between two blocks of their networks.
 *
 * In:   a device, a socket that listens; the messages of serve.h.
 * Out:  runs by priorities; answers.
 * Next: guest.c opens the networks; runtime/schedule.c decides who goes on.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* accept4, ppoll */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

/* Without an artifact for so long a connection ends; after it a socket that gives no connection is tried again; so long a block is waited
 * for before clients are heard. */
static const uint64_t GREETING_NS = 5000000000u, PAUSE_NS = 50000000u, SLICE_NS = 10000000u;

struct lds_server {
  lds_easy_device *device;
  int listening;
  lds_schedule schedule;
  lds_guest *guests;
  uint32_t count;
  uint64_t gone;          /* of those whose networks were opened */
  uint64_t deaf_until;    /* when connections are accepted again */
  uint64_t cycles_before; /* of all blocks before the last step: whoever is heard behind it may have come while its block was at work */
  lds_server_counts counts;
};

static uint64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- clients ----------------------------------------------------------------------------------------------------------------- */
static void hang_up(lds_guest *g) {
  if (g->channel >= 0) (void)close(g->channel);
  g->channel = -1;
  if (g->asked) lds_task_cancel(&g->task);
}

static void drop(lds_server *s, lds_guest *g) {
  ++s->counts.dropped;
  hang_up(g);
}

/* Sends an answer, with a descriptor unless that is -1. Nobody waits for a client that reads none. */
static void answer(lds_server *s, lds_guest *g, int status, const lds_easy_error *error, int descriptor) {
  lds_serve_answer a;
  memset(&a, 0, sizeof a);
  a.head = g->request;
  a.head.first = (uint32_t)status;
  a.head.second = 0;
  a.response_ns = g->task.response;
  a.cycles = g->cycles;
  a.response_cycles = g->response_cycles;
  a.missed = g->task.missed;
  if (status != LDS_OK) memcpy(a.text, error->text, sizeof a.text);
  if (g->channel >= 0 && !lds_packets_send(g->channel, &a, sizeof a, descriptor, MSG_DONTWAIT)) drop(s, g);
}

static void run_ended(void *ctx, lds_task *task, int status) {
  lds_guest *g = ctx;
  lds_easy_error error;
  (void)task;
  error.text[0] = 0;
  g->asked = 0;
  g->response_cycles = g->server->schedule.cycles - g->released_at_cycles;
  lds_guest_take(g, status, &error);
  ++g->server->counts.runs;
  g->server->counts.failures += status != LDS_OK;
  answer(g->server, g, status, &error, -1);
}

static void open_network(lds_server *s, lds_guest *g, const lds_serve_request *r, int artifact) {
  lds_easy_error error;
  int memory = -1, status;
  if (r->head.first != LDS_SERVE_VERSION) {
    status = lds_easy_fail(&error, LDS_ERR_VERSION, "the server is of another version of loadstone");
  } else {
    status = lds_guest_open(g, s->device, &s->schedule, r, artifact, run_ended, &memory, &error);
  }
  s->counts.networks += status == LDS_OK;
  s->counts.refused += status != LDS_OK;
  answer(s, g, status, &error, memory);
  if (memory >= 0) (void)close(memory);
}

/* A release comes a period after the one before at least, whenever it is asked for. */
static void ask(lds_server *s, lds_guest *g, uint64_t now) {
  lds_easy_error error;
  const int status = lds_guest_enter(g, &s->schedule, g->request.first, &error);
  if (status != LDS_OK) {
    answer(s, g, status, &error, -1);
    return;
  }
  g->asked = g->waits = 1;
  g->due = g->earliest > now ? g->earliest : now;
}

static void hear(lds_server *s, lds_guest *g) {
  lds_serve_request r;
  lds_easy_error error;
  int descriptor, status;
  const long got = lds_packets_receive(g->channel, &r, sizeof r, &descriptor, MSG_DONTWAIT);
  const int opens = got == (long)sizeof r && r.head.kind == LDS_SERVE_OPEN && g->net == NULL;
  const int asks = got == (long)sizeof r.head && g->net != NULL && g->asked == 0;
  if (got < 0 && errno == EAGAIN) return;
  if (got > 0) g->request = r.head;
  if (opens) {
    open_network(s, g, &r, descriptor);
  } else if (asks && r.head.kind == LDS_SERVE_RUN) {
    ask(s, g, now_ns());
  } else if (asks && r.head.kind == LDS_SERVE_RESET) {
    status = lds_easy_reset(g->net, &error);
    answer(s, g, status, &error, -1);
  } else if (got > 0) {
    drop(s, g);
  } else {
    hang_up(g);
  }
  if (descriptor >= 0) (void)close(descriptor);
}

static void welcome(lds_server *s, uint64_t now) {
  const int channel = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  lds_guest *g = channel < 0 ? NULL : calloc(1, sizeof *g);
  if (g == NULL) {
    if (channel >= 0) (void)close(channel);
    s->deaf_until = now + PAUSE_NS;
    return;
  }
  g->server = s;
  g->channel = channel;
  g->came = now;
  g->next = s->guests;
  s->guests = g;
  ++s->count;
}

/* Ends those that have gone, once no block of theirs is on the device. */
static void sweep(lds_server *s, uint64_t now) {
  lds_guest **place = &s->guests;
  while (*place != NULL) {
    lds_guest *g = *place;
    if (g->channel >= 0 && g->net == NULL && now - g->came > GREETING_NS) drop(s, g);
    if (g->channel >= 0 || s->schedule.in_flight == &g->task) {
      place = &g->next;
      continue;
    }
    *place = g->next;
    --s->count;
    s->gone += g->net != NULL;
    lds_guest_close(g, &s->schedule);
    free(g);
  }
}

/* --- the loop ---------------------------------------------------------------------------------------------------------------- */
/* Releases the runs that are due; returns when something is to be done next though nobody says anything. */
static uint64_t release(lds_server *s, uint64_t now) {
  uint64_t next = now + GREETING_NS;
  lds_guest *g;
  for (g = s->guests; g != NULL; g = g->next) {
    if (g->waits && g->due <= now) {
      g->waits = 0;
      g->earliest = g->due > UINT64_MAX - g->period_ns ? UINT64_MAX : g->due + g->period_ns;
      g->released_at_cycles = s->cycles_before;
      (void)lds_task_release(&g->task, g->due);
    }
    if (g->waits && g->due < next) next = g->due;
  }
  return next;
}

/* Waits for clients, for wait_ns at most, and hears each of them once. 1: `stop` is readable; -1: the system cannot wait. */
static int listen_for(lds_server *s, int stop, uint64_t wait_ns, uint64_t now) {
  struct pollfd ready[LDS_SERVER_CLIENTS + 2];
  struct timespec wait;
  lds_guest *heard[LDS_SERVER_CLIENTS];
  nfds_t count = 2;
  lds_guest *g;
  nfds_t k;
  memset(ready, 0, sizeof ready);
  ready[0].fd = stop;
  ready[1].fd = s->count < LDS_SERVER_CLIENTS && now >= s->deaf_until ? s->listening : -1;
  ready[0].events = ready[1].events = POLLIN;
  if (ready[1].fd < 0 && s->count < LDS_SERVER_CLIENTS && wait_ns > PAUSE_NS) wait_ns = PAUSE_NS;
  for (g = s->guests; g != NULL; g = g->next) {
    if (g->channel < 0) continue;
    heard[count - 2u] = g;
    ready[count].fd = g->channel;
    ready[count++].events = POLLIN;
  }
  wait.tv_sec = (time_t)(wait_ns / 1000000000u);
  wait.tv_nsec = (long)(wait_ns % 1000000000u);
  if (ppoll(ready, count, &wait, NULL) < 0) return errno == EINTR ? 0 : -1;
  for (k = 2; k < count; ++k) {
    if (ready[k].revents != 0 && heard[k - 2u]->channel >= 0) hear(s, heard[k - 2u]);
  }
  if (ready[1].revents != 0) welcome(s, now);
  return stop >= 0 && ready[0].revents != 0;
}

int lds_server_run(lds_server *s, uint64_t clients, int stop, lds_easy_error *error) {
  int stopped = 0;
  if (s == NULL) return lds_easy_fail(error, LDS_ERR_ARGUMENT, "the server is NULL");
  while (stopped == 0 && s->gone < clients) {
    const uint64_t now = now_ns(), next = release(s, now);
    int busy;
    s->cycles_before = s->schedule.cycles;
    busy = lds_schedule_step(&s->schedule, now, SLICE_NS) == LDS_BUSY;
    stopped = listen_for(s, stop, busy ? 0 : next - now, now);
    sweep(s, now);
  }
  if (stopped >= 0) return lds_easy_fail(error, LDS_OK, "%s", "");
  return lds_easy_fail(error, LDS_ERR_HAL, "the system cannot wait for clients: %s", strerror(errno));
}

int lds_server_open(const char *device, int listening, lds_server **out, lds_easy_error *error) {
  lds_server *s = calloc(1, sizeof *s);
  int status;
  if (out == NULL || s == NULL) {
    free(s);
    return lds_easy_fail(error, out == NULL ? LDS_ERR_ARGUMENT : LDS_ERR_MEMORY, "no server: out of memory, or no pointer for its handle");
  }
  *out = NULL;
  s->listening = listening;
  lds_schedule_init(&s->schedule);
  status = lds_easy_device_open(device, &s->device, error);
  if (status == LDS_OK && s->device->name.kind == LDS_KIND_SERVED) {
    status = lds_easy_fail(error, LDS_ERR_ARGUMENT, "device '%.200s' has a server already: its clients name it", device);
  }
  if (status == LDS_OK) {
    *out = s;
  } else {
    lds_easy_device_close(s->device);
    free(s);
  }
  return status;
}

void lds_server_counted(const lds_server *s, lds_server_counts *out) { *out = s->counts; }

void lds_server_close(lds_server *s) {
  lds_guest *g, *next;
  if (s == NULL) return;
  for (g = s->guests; g != NULL; g = next) {
    next = g->next;
    if (g->channel >= 0) (void)close(g->channel);
    lds_guest_close(g, &s->schedule);
    free(g);
  }
  lds_easy_device_close(s->device);
  free(s);
}
