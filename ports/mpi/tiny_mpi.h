/* ports/mpi/tiny_mpi.h - ranks that mpirun started: a transport (tiny_net, src/core/net.h) over MPI
 *
 *     #define TINY_WITH_COLLECTIVES
 *     #include "tinyllm.h"                     or tinygnn.h; before this one
 *     #include "ports/mpi/tiny_mpi.h"          in one file; compile with mpicc
 *
 *     tiny_mpi *mpi;
 *     tiny_mpi_open(ctx, NULL, &mpi);          all ranks of MPI_COMM_WORLD; starts MPI if the program did not
 *     c.net = tiny_mpi_net(mpi);               for tiny_comm, tiny_coll_* and everything above them
 *     ...
 *     tiny_mpi_close(ctx, mpi);
 *
 * Messages  A message of up to n_short bytes is one MPI message: 16 bytes with its tag and length, then its bytes, sent
 *           from memory of the transport. A longer one is a head of 16 bytes, then pieces of at most n_piece bytes that
 *           MPI reads and writes in the caller's memory. Each rank sees the messages of another one in their order, so
 *           a message of another length or tag than awaited is TINY_E_PROTOCOL before one byte of it is stored.
 * Waiting   Nothing here waits inside MPI. send and recv start MPI_Isend and MPI_Irecv and ask MPI_Test; pause asks
 *           MPI_Iprobe for spin_ns, then sleeps between its questions. So deadlines and wake work.
 * Ends      close tells every rank why, in an MPI message of its own. A rank that ends this way gives the others
 *           TINY_E_PEER or TINY_E_PROTOCOL with its number. A process that dies cannot: MPI itself then ends every
 *           process of the run, unless mpirun was told not to. README.md has the options and what the ranks see.
 * Memory    2 + 4 buffers of n_short bytes for each rank. After a failure, close waits up to last_ns for pieces that
 *           MPI still moves in the caller's memory. Only if the other rank hangs in the middle of such a message do
 *           they outlast it: a program that goes on then must keep its lists of more than n_short bytes.
 * Threads   MPI is started with MPI_THREAD_SERIALIZED. A program that starts MPI itself asks for at least that, or sets
 *           one_thread and opens each tiny_comm with no_thread. Its own calls of MPI must not coincide with these,
 *           unless it asked for MPI_THREAD_MULTIPLE. */
#ifndef TINY_MPI_H
#define TINY_MPI_H

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1                  /* the old C++ bindings are not needed */
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#include <sched.h>
#include <sys/select.h>
#endif

#if defined __GNUC__ || defined __clang__
#define TINY_MPI_FN static __attribute__((unused))
#else
#define TINY_MPI_FN static
#endif

typedef struct tiny_mpi tiny_mpi;
typedef struct tiny_mpi_desc {              /* all zero, or no desc at all: every rank of MPI_COMM_WORLD */
    const MPI_Comm *comm;                   /* it is duplicated; all of its ranks make the same calls; at most 64 */
    uint64_t open_ns;                       /* for all ranks to come; 0: 30 s */
    uint64_t last_ns;                       /* that close waits for the others; 0: 30 s, after a failure 1 s */
    uint64_t spin_ns;                       /* of polling before pause sleeps; 0: 0.5 ms */
    size_t n_short;                         /* bytes of a message that is copied; 0: 16384; the same on all ranks */
    size_t n_piece;                         /* bytes of a piece; 0, or more than that: 2^30; the same on all ranks */
    int one_thread;                         /* nonzero: only the thread that started MPI calls this transport */
} tiny_mpi_desc;

/* All ranks call it. A failure leaves its sentence in ctx. */
TINY_MPI_FN tiny_status tiny_mpi_open(tiny_ctx *ctx, const tiny_mpi_desc *desc, tiny_mpi **out);
TINY_MPI_FN tiny_net *tiny_mpi_net(tiny_mpi *mpi);         /* NULL for NULL */
/* All ranks call it, after tiny_comm_close; it waits for them up to last_ns. Ends MPI if tiny_mpi_open has started it
 * and all ranks are here; otherwise MPI_Finalize could wait for ever, and mpirun ends the run when this process ends.
 * Takes NULL. */
TINY_MPI_FN void tiny_mpi_close(tiny_ctx *ctx, tiny_mpi *mpi);

/* ---- inside ------------------------------------------------------------------------------------------------------ */

enum { TINY_MPI_HEAD = 16, TINY_MPI_SLOTS = 4, TINY_MPI_SHORT = 1, TINY_MPI_LONG, TINY_MPI_PIECE, TINY_MPI_END };
#define TINY_MPI_MOST ((size_t)1 << 30)     /* MPI counts bytes in an int */

typedef struct tiny_mpi_peer {
    MPI_Request slot[TINY_MPI_SLOTS];       /* sends from `out`: a ring */
    int first, n_slots;
    unsigned char *out, *in;                /* out: (TINY_MPI_SLOTS, TINY_MPI_HEAD + n_short); in: one of these */
    MPI_Request send, recv;                 /* of a piece; of `in` or a piece */
    int sending, receiving, stops;          /* receiving: the MPI tag, or 0; stops: its piece was cancelled */
    size_t n_send, n_recv;
    unsigned char *dropped;                 /* at the end: room for a piece that nobody wants */
    int awaits, blocked;                    /* a recv, a send has to be called again */
    MPI_Request bye;
    unsigned char end[8];                   /* what bye sends */
    int told, ended;                        /* END was sent to it, has come from it */
    uint32_t blame, why;
} tiny_mpi_peer;

struct tiny_mpi {
    tiny_net net;
    MPI_Comm comm;
    tiny_mpi_peer *peer;                    /* (world) */
    unsigned char *memory;
    size_t n_short, n_piece;
    uint64_t last_ns, spin_ns;
    uint64_t changed;                       /* under the lock */
    int owns, has_comm, has_lock, closed;
    int whole, alone;                       /* it was opened; alone: the other ranks may still wait for it */
    tiny_status failed;
#ifndef _WIN32
    pthread_mutex_t lock;
#endif
};

static void tiny_mpi_lock(tiny_mpi *t)
{
#ifndef _WIN32
    if (t->has_lock) (void)pthread_mutex_lock(&t->lock);
#else
    (void)t;
#endif
}
static void tiny_mpi_unlock(tiny_mpi *t)
{
#ifndef _WIN32
    if (t->has_lock) (void)pthread_mutex_unlock(&t->lock);
#else
    (void)t;
#endif
}
static void tiny_mpi_sleep(uint64_t ns)
{
#ifdef _WIN32
    Sleep((DWORD)(ns / 1000000u));
#else
    struct timeval t;
    t.tv_sec = 0;
    t.tv_usec = (int)(ns / 1000u % 1000000u);
    if (ns) (void)select(0, NULL, NULL, NULL, &t);
    else (void)sched_yield();
#endif
}

static void tiny_mpi_put(unsigned char *p, uint64_t v, int n)
{
    int i;
    for (i = 0; i < n; i++) p[i] = (unsigned char)(v >> 8 * i);
}
static uint64_t tiny_mpi_get(const unsigned char *p, int n)
{
    uint64_t v = 0;
    int i;
    for (i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* A sentence for the context: no other public call leaves one. */
typedef struct tiny_mpi_sentence { tiny_status st; char says[256]; } tiny_mpi_sentence;
static void tiny_mpi_team(tiny_team *team, void *arg)
{
    const tiny_mpi_sentence *s = (const tiny_mpi_sentence *)arg;
    tiny_team_fail(team, s->st, s->says);
}
static tiny_status tiny_mpi_fail(tiny_ctx *ctx, tiny_mpi_sentence *s, tiny_status st)
{
    s->st = st;
    (void)tiny_parallel(ctx, 1, 0, 0, tiny_mpi_team, s);
    return st;
}

/* what MPI says about an error, in one line */
static void tiny_mpi_text(int code, char *to, size_t room)
{
    char text[MPI_MAX_ERROR_STRING + 1];
    int n = 0;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS) n = 0;
    text[n] = 0;
    for (n = 0; text[n]; n++) if (text[n] == '\n') text[n] = ' ';
    (void)snprintf(to, room, "%.*s", (int)(room > 160 ? 150 : room), text);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static tiny_status tiny_mpi_blame(tiny_mpi *t, tiny_status st, int rank, const char *says)
{
    t->failed = st;
    t->net.gone = rank + 1;
    (void)snprintf(t->net.says, sizeof t->net.says, "%s", says);
    return st;
}
static tiny_status tiny_mpi_broken(tiny_mpi *t, int rank, int code)
{
    char text[200], says[200];
    tiny_mpi_text(code, text, sizeof text);
    (void)snprintf(says, sizeof says, "rank %d is gone: MPI says %.150s", rank, text);
    return tiny_mpi_blame(t, TINY_E_PEER, rank, says);
}
/* the rank has told that it ends, and nothing of it is left to receive */
static tiny_status tiny_mpi_gone(tiny_mpi *t, int from)
{
    const tiny_mpi_peer *p = &t->peer[from];
    const int known = p->blame < (uint32_t)t->net.world, rank = known ? (int)p->blame : from;
    char says[200];
    if (p->why == (uint32_t)TINY_E_PROTOCOL) {
        (void)snprintf(says, sizeof says, "rank %d ended the group: it and rank %d do not do the same", from, rank);
        return tiny_mpi_blame(t, TINY_E_PROTOCOL, rank, says);
    }
    if (rank != from) (void)snprintf(says, sizeof says, "rank %d is gone, says rank %d", rank, from);
    else
        (void)snprintf(says, sizeof says, "rank %d %s", from,
                       !p->why                                ? "has ended"
                       : p->why == (uint32_t)TINY_E_CANCELLED ? "gave up"
                       : p->why == (uint32_t)TINY_E_TIMEOUT   ? "waited too long and gave up"
                                                              : "is gone: it gave up");
    return tiny_mpi_blame(t, TINY_E_PEER, rank, says);
}
static void tiny_mpi_heard(tiny_mpi_peer *p)
{
    p->blame = (uint32_t)tiny_mpi_get(p->in, 4);
    p->why = (uint32_t)tiny_mpi_get(p->in + 4, 4);
    p->ended = 1;
}
/* Has the rank ended, so that it receives nothing any more? What else has come from it counts for nothing then. */
static int tiny_mpi_has_left(tiny_mpi *t, int rank)
{
    tiny_mpi_peer *p = &t->peer[rank];
    int flag = 0;
    if (p->ended) return 1;
    if (MPI_Iprobe(rank, TINY_MPI_END, t->comm, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || !flag) return 0;
    if (p->receiving && p->receiving != TINY_MPI_PIECE) return 0;       /* `in` is taken */
    if (MPI_Recv(p->in, 8, MPI_BYTE, rank, TINY_MPI_END, t->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    tiny_mpi_heard(p);
    return 1;
}

static tiny_status tiny_mpi_peer_of(tiny_mpi *t, int rank, tiny_mpi_peer **p)
{
    if (t->failed) return t->failed;
    if (t->closed || rank < 0 || rank >= t->net.world || rank == t->net.rank) {
        (void)snprintf(t->net.says, sizeof t->net.says, "rank %d has no connection to rank %d", t->net.rank, rank);
        return TINY_E_ARGUMENT;
    }
    *p = &t->peer[rank];
    return TINY_OK;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* frees the slots whose sends are over; MPI_SUCCESS, or the error of one */
static int tiny_mpi_slots(tiny_mpi_peer *p)
{
    while (p->n_slots) {
        int flag = 0;
        const int code = MPI_Test(&p->slot[p->first], &flag, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return code;
        if (!flag) break;
        p->first = (p->first + 1) % TINY_MPI_SLOTS;
        p->n_slots--;
    }
    return MPI_SUCCESS;
}

static tiny_status tiny_mpi_send_to(tiny_mpi *t, tiny_mpi_peer *p, int to, tiny_message *m)
{
    int code, flag;
    p->blocked = 0;
    if (!m->begun) {
        const int is_short = m->n <= t->n_short, slot = (p->first + p->n_slots) % TINY_MPI_SLOTS;
        unsigned char *out = p->out + (size_t)slot * (TINY_MPI_HEAD + t->n_short);
        if (tiny_mpi_has_left(t, to)) return tiny_mpi_gone(t, to);
        code = tiny_mpi_slots(p);
        if (code != MPI_SUCCESS) return tiny_mpi_broken(t, to, code);
        if (p->n_slots == TINY_MPI_SLOTS) {
            p->blocked = 1;
            return TINY_OK;
        }
        tiny_mpi_put(out, m->tag, 8);
        tiny_mpi_put(out + 8, m->n, 8);
        if (is_short && m->n) memcpy(out + TINY_MPI_HEAD, m->data, m->n);
        code = MPI_Isend(out, (int)(TINY_MPI_HEAD + (is_short ? m->n : 0)), MPI_BYTE, to,
                         is_short ? TINY_MPI_SHORT : TINY_MPI_LONG, t->comm, &p->slot[slot]);
        if (code != MPI_SUCCESS) return tiny_mpi_broken(t, to, code);
        p->n_slots++;
        m->begun = 1;
        if (is_short) m->done = m->n;
    }
    while (m->done < m->n) {
        if (!p->sending) {
            p->n_send = m->n - m->done < t->n_piece ? m->n - m->done : t->n_piece;
            code = MPI_Isend((unsigned char *)m->data + m->done, (int)p->n_send, MPI_BYTE, to, TINY_MPI_PIECE, t->comm,
                             &p->send);
            if (code != MPI_SUCCESS) return tiny_mpi_broken(t, to, code);
            p->sending = 1;
        }
        flag = 0;
        code = MPI_Test(&p->send, &flag, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) return tiny_mpi_broken(t, to, code);
        if (!flag) {
            p->blocked = 1;
            return tiny_mpi_has_left(t, to) ? tiny_mpi_gone(t, to) : TINY_OK;
        }
        p->sending = 0;
        m->done += p->n_send;
    }
    m->whole = 1;
    t->net.count[to].messages_sent++;
    t->net.count[to].bytes_sent += m->n;
    return TINY_OK;
}

static tiny_status tiny_mpi_send(tiny_net *net, int to, tiny_message *m)
{
    tiny_mpi *t = (tiny_mpi *)net;
    tiny_mpi_peer *p = NULL;
    tiny_status st;
    tiny_mpi_lock(t);
    st = tiny_mpi_peer_of(t, to, &p);
    if (!st) st = tiny_mpi_send_to(t, p, to, m);
    tiny_mpi_unlock(t);
    return st;
}

/* the head of a message is in p->in: is it the awaited one? */
static tiny_status tiny_mpi_head(tiny_mpi *t, tiny_mpi_peer *p, int from, int kind, tiny_message *m)
{
    const uint64_t tag = tiny_mpi_get(p->in, 8), n = tiny_mpi_get(p->in + 8, 8);
    char says[200];
    if (tag == m->tag && n == m->n && (kind == TINY_MPI_LONG || p->n_recv == TINY_MPI_HEAD + m->n)) return TINY_OK;
    (void)snprintf(says, sizeof says, "rank %d sent %llu bytes with tag %llx, rank %d awaits %llu with tag %llx", from,
                   (unsigned long long)n, (unsigned long long)tag, t->net.rank, (unsigned long long)m->n,
                   (unsigned long long)m->tag);
    m->tag = tag;
    return tiny_mpi_blame(t, TINY_E_PROTOCOL, from, says);
}

/* Starts to receive what comes next from this rank. 0: nothing is there. */
static int tiny_mpi_next(tiny_mpi *t, tiny_mpi_peer *p, int from, const tiny_message *m, tiny_status *st)
{
    MPI_Status status;
    int code, flag = 0, n = 0;
    if (m->begun) {                         /* a piece: MPI may begin to move it before it is asked for it */
        p->n_recv = m->n - m->done < t->n_piece ? m->n - m->done : t->n_piece;
        code = MPI_Irecv((unsigned char *)m->data + m->done, (int)p->n_recv, MPI_BYTE, from, TINY_MPI_PIECE, t->comm,
                         &p->recv);
        if (code != MPI_SUCCESS) *st = tiny_mpi_broken(t, from, code);
        else p->receiving = TINY_MPI_PIECE;
        return code == MPI_SUCCESS;
    }
    code = MPI_Iprobe(from, MPI_ANY_TAG, t->comm, &flag, &status);
    if (code == MPI_SUCCESS && flag) {
        code = MPI_Get_count(&status, MPI_BYTE, &n);
        p->n_recv = (size_t)(n > 0 ? n : 0);
    }
    if (code == MPI_SUCCESS && flag) {
        code = MPI_Irecv(p->in, (int)(TINY_MPI_HEAD + t->n_short), MPI_BYTE, from, status.MPI_TAG, t->comm, &p->recv);
        if (code == MPI_SUCCESS) p->receiving = status.MPI_TAG;
    }
    if (code != MPI_SUCCESS) *st = tiny_mpi_broken(t, from, code);
    return code == MPI_SUCCESS && flag;
}

static tiny_status tiny_mpi_recv_from(tiny_mpi *t, tiny_mpi_peer *p, int from, tiny_message *m)
{
    tiny_status st = TINY_OK;
    MPI_Status status;
    p->awaits = 0;
    for (;;) {
        int code, flag = 0, kind, n = 0;
        if (p->ended && !p->receiving) return tiny_mpi_gone(t, from);
        if (!p->receiving && !tiny_mpi_next(t, p, from, m, &st)) {
            p->awaits = 1;
            return st;
        }
        code = MPI_Test(&p->recv, &flag, &status);
        if (code != MPI_SUCCESS) {
            p->receiving = 0;
            return tiny_mpi_broken(t, from, code);
        }
        if (!flag) {
            p->awaits = 1;
            if (p->receiving != TINY_MPI_PIECE || p->stops) return TINY_OK;
            (void)MPI_Iprobe(from, TINY_MPI_END, t->comm, &flag, MPI_STATUS_IGNORE);
            if (!flag) return TINY_OK;
            /* the rank has ended: a piece that it never sent is cancelled, one that is on its way still arrives */
            (void)MPI_Cancel(&p->recv);
            p->stops = 1;
            continue;
        }
        kind = p->receiving;
        p->receiving = 0;
        if (p->stops && MPI_Test_cancelled(&status, &flag) == MPI_SUCCESS && flag)
            return tiny_mpi_has_left(t, from) ? tiny_mpi_gone(t, from) : tiny_mpi_broken(t, from, MPI_ERR_OTHER);
        (void)MPI_Get_count(&status, MPI_BYTE, &n);
        if (kind == TINY_MPI_END) tiny_mpi_heard(p);
        else if ((size_t)n != p->n_recv || kind > TINY_MPI_PIECE ||
                 (kind != TINY_MPI_PIECE && (p->n_recv < TINY_MPI_HEAD || m->begun)) ||
                 (kind == TINY_MPI_PIECE && !m->begun)) {
            char says[100];
            (void)snprintf(says, sizeof says, "rank %d sent a message that is not of this transport", from);
            return tiny_mpi_blame(t, TINY_E_PROTOCOL, from, says);
        } else if (kind == TINY_MPI_PIECE) m->done += p->n_recv;
        else {
            st = tiny_mpi_head(t, p, from, kind, m);
            if (st) return st;
            m->begun = 1;
            if (kind == TINY_MPI_SHORT && m->n) memcpy(m->data, p->in + TINY_MPI_HEAD, m->n);
            if (kind == TINY_MPI_SHORT) m->done = m->n;
        }
        if (!m->begun || m->done < m->n) continue;
        m->whole = 1;
        t->net.count[from].messages_received++;
        t->net.count[from].bytes_received += m->n;
        return TINY_OK;
    }
}

static tiny_status tiny_mpi_recv(tiny_net *net, int from, tiny_message *m)
{
    tiny_mpi *t = (tiny_mpi *)net;
    tiny_mpi_peer *p = NULL;
    tiny_status st;
    tiny_mpi_lock(t);
    st = tiny_mpi_peer_of(t, from, &p);
    if (!st) st = tiny_mpi_recv_from(t, p, from, m);
    tiny_mpi_unlock(t);
    return st;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static uint64_t tiny_mpi_changes(tiny_net *net)
{
    tiny_mpi *t = (tiny_mpi *)net;
    uint64_t n;
    tiny_mpi_lock(t);
    n = t->changed;
    tiny_mpi_unlock(t);
    return n;
}
static void tiny_mpi_wake(tiny_net *net)
{
    tiny_mpi *t = (tiny_mpi *)net;
    tiny_mpi_lock(t);
    t->changed++;
    tiny_mpi_unlock(t);
}

/* Can a send or recv that found nothing go on? Errors count as yes: the next call sees them. *moves: MPI moves a piece,
 * and does so only while it is called. */
static int tiny_mpi_look(tiny_mpi *t, int *moves)
{
    int i;
    *moves = 0;
    for (i = 0; i < t->net.world && !t->closed; i++) {
        tiny_mpi_peer *p = &t->peer[i];
        int flag = 0;
        *moves |= p->sending || p->receiving == TINY_MPI_PIECE;
        if (p->awaits) {
            if (p->receiving ? MPI_Request_get_status(p->recv, &flag, MPI_STATUS_IGNORE)
                             : MPI_Iprobe(i, MPI_ANY_TAG, t->comm, &flag, MPI_STATUS_IGNORE))
                flag = 1;
            if (!flag && p->receiving == TINY_MPI_PIECE && !p->stops &&
                MPI_Iprobe(i, TINY_MPI_END, t->comm, &flag, MPI_STATUS_IGNORE))
                flag = 1;
            if (flag) return 1;
        }
        if (p->blocked) {
            if (MPI_Request_get_status(p->sending ? p->send : p->slot[p->first], &flag, MPI_STATUS_IGNORE)) flag = 1;
            if (!flag && MPI_Iprobe(i, TINY_MPI_END, t->comm, &flag, MPI_STATUS_IGNORE)) flag = 1;
            if (flag) return 1;
        }
    }
    return 0;
}

static void tiny_mpi_pause(tiny_net *net, uint64_t seen, uint64_t until)
{
    tiny_mpi *t = (tiny_mpi *)net;
    const uint64_t start = tiny_now_ns();
    for (;;) {
        uint64_t now, nap;
        int over, moves = 0;
        tiny_mpi_lock(t);
        over = t->changed != seen || tiny_mpi_look(t, &moves);
        if (over && t->changed == seen) t->changed++;
        tiny_mpi_unlock(t);
        now = tiny_now_ns();
        if (over || now >= until) return;
        nap = now - start < (moves ? 4 : 1) * t->spin_ns ? 0 : now - start < 10000000u ? 20000u : 200000u;
        if (nap > until - now) nap = until - now;
        tiny_mpi_sleep(nap);
    }
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* Receives and drops what comes: ranks whose sends are on their way can end too, and nothing is left for a later
 * communicator. Each message gets its room, since MPICH ends the process if one is truncated, whatever the error
 * handler. 1: this rank still has requests; own: only those in the caller's memory count. */
static int tiny_mpi_drain(tiny_mpi *t, int own)
{
    int i, left = 0, flag;
    for (i = 0; i < t->net.world; i++) {
        tiny_mpi_peer *p = &t->peer[i];
        if (i == t->net.rank) continue;
        flag = 0;
        if (p->sending && (MPI_Test(&p->send, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag)) p->sending = 0;
        flag = 0;
        if (p->receiving && (MPI_Test(&p->recv, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag)) {
            if (p->receiving == TINY_MPI_END) tiny_mpi_heard(p);
            p->receiving = 0;
            free(p->dropped);
            p->dropped = NULL;
        }
        if (!p->receiving) {
            MPI_Status status;
            unsigned char *to = p->in;
            int n = 0;
            flag = 0;
            if (MPI_Iprobe(i, MPI_ANY_TAG, t->comm, &flag, &status) != MPI_SUCCESS || !flag ||
                MPI_Get_count(&status, MPI_BYTE, &n) != MPI_SUCCESS || n < 0)
                flag = 0;
            if (flag && status.MPI_TAG == TINY_MPI_PIECE) to = p->dropped = (unsigned char *)malloc((size_t)n + 1);
            if (flag && to && MPI_Irecv(to, n, MPI_BYTE, i, status.MPI_TAG, t->comm, &p->recv) == MPI_SUCCESS)
                p->receiving = status.MPI_TAG == TINY_MPI_PIECE ? TINY_MPI_SHORT : status.MPI_TAG;
            else if (p->dropped) {
                free(p->dropped);
                p->dropped = NULL;
            }
        }
        (void)tiny_mpi_slots(p);
        flag = 0;
        if (p->told == 1 && (MPI_Test(&p->bye, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag)) p->told = 2;
        left |= p->sending || p->receiving == TINY_MPI_PIECE;
        left |= !own && (p->receiving || p->n_slots || p->told != 2 || !p->ended);
    }
    return left;
}

/* Until nothing is left, or last_ns; 1: something is. Where no rank has failed, the others are late, not dead: one that
 * leaves without MPI_Finalize would make mpirun kill them. */
static int tiny_mpi_linger(tiny_mpi *t, int own)
{
    const uint64_t start = tiny_now_ns(), usual = UINT64_C(1000000000) * (own || t->failed || t->net.why ? 1 : 30),
                   most = t->last_ns ? t->last_ns : usual;
    int left;
    while ((left = tiny_mpi_drain(t, own)) != 0 && tiny_now_ns() - start < most)
        tiny_mpi_sleep(tiny_now_ns() - start < t->spin_ns ? 0 : 20000u);
    return left;
}

static void tiny_mpi_shut(tiny_net *net)
{
    tiny_mpi *t = (tiny_mpi *)net;
    const tiny_status st = t->failed ? t->failed : net->why;
    int i;
    tiny_mpi_lock(t);
    for (i = 0; i < net->world && !t->closed; i++) {
        tiny_mpi_peer *p = &t->peer[i];
        if (i == net->rank) continue;
        tiny_mpi_put(p->end, net->gone ? (uint64_t)(net->gone - 1) : (uint64_t)net->rank, 4);
        tiny_mpi_put(p->end + 4, (uint64_t)st, 4);
        if (p->receiving == TINY_MPI_PIECE) (void)MPI_Cancel(&p->recv);         /* the caller's memory */
        p->told = MPI_Isend(p->end, 8, MPI_BYTE, i, TINY_MPI_END, t->comm, &p->bye) == MPI_SUCCESS ? 1 : 2;
    }
    if (!t->closed) (void)tiny_mpi_linger(t, 1);
    t->closed = 1;
    tiny_mpi_unlock(t);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* until the request is complete; MPI_SUCCESS, an error, or -1: not in time */
static int tiny_mpi_await(MPI_Request *r, uint64_t end)
{
    int flag = 0, code;
    for (;;) {
        code = MPI_Test(r, &flag, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || flag) return code;
        if (tiny_now_ns() >= end) return -1;
        tiny_mpi_sleep(20000u);
    }
}

/* Do all ranks mean the same? The largest of each number and of its complement are the number and its complement. */
static tiny_status tiny_mpi_agree(tiny_mpi *t, uint64_t end, int *code)
{
    static const uint16_t order = 0x0100;   /* its first byte: 0 little endian, 1 big endian */
    uint64_t *mine = (uint64_t *)(void *)t->memory, *most = mine + 8;
    MPI_Request r;
    int i;
    mine[0] = *(const unsigned char *)&order;           /* messages are memory: all ranks have one order of bytes */
    mine[1] = t->n_short;
    mine[2] = t->n_piece;
    mine[3] = 1;                            /* of this protocol */
    for (i = 0; i < 4; i++) mine[4 + i] = ~mine[i];
    *code = MPI_Iallreduce(mine, most, 8, MPI_UINT64_T, MPI_MAX, t->comm, &r);
    if (*code == MPI_SUCCESS) *code = tiny_mpi_await(&r, end);
    if (*code == -1) return TINY_E_TIMEOUT;
    if (*code != MPI_SUCCESS) return TINY_E_PEER;
    for (i = 0; i < 4; i++) if (most[i] != ~most[4 + i]) return TINY_E_PROTOCOL;
    return TINY_OK;
}

/* the communicator and what hangs on it; on failure the sentence */
static tiny_status tiny_mpi_join(tiny_ctx *ctx, tiny_mpi *t, const tiny_mpi_desc *d, tiny_mpi_sentence *s)
{
    const MPI_Comm from = d->comm ? *d->comm : MPI_COMM_WORLD;
    const uint64_t now = tiny_now_ns(), open = d->open_ns ? d->open_ns : UINT64_C(30000000000),
                   end = open > UINT64_MAX - now ? UINT64_MAX : now + open;
    MPI_Request r;
    tiny_status st;
    size_t each;
    int code, i, inter = 0;
    if (from == MPI_COMM_NULL || MPI_Comm_test_inter(from, &inter) != MPI_SUCCESS || inter) {
        (void)snprintf(s->says, sizeof s->says, "the communicator is %s: it must be one group of ranks",
                       inter ? "an intercommunicator" : "MPI_COMM_NULL");
        return TINY_E_ARGUMENT;
    }
    (void)MPI_Comm_rank(from, &t->net.rank);
    (void)MPI_Comm_size(from, &t->net.world);
    if (t->net.world > TINY_NET_RANKS) {
        (void)snprintf(s->says, sizeof s->says, "%d ranks, there must be 1 to %d", t->net.world, TINY_NET_RANKS);
        return TINY_E_ARGUMENT;
    }
    each = (TINY_MPI_SLOTS + 1) * (TINY_MPI_HEAD + t->n_short);
    t->peer = (tiny_mpi_peer *)tiny_alloc(ctx, (size_t)t->net.world * sizeof *t->peer);
    t->net.count = (tiny_net_count *)tiny_alloc(ctx, (size_t)t->net.world * sizeof *t->net.count);
    t->memory = (unsigned char *)tiny_alloc(ctx, (size_t)t->net.world * each + 128);
    if (!t->peer || !t->net.count || !t->memory) {
        (void)snprintf(s->says, sizeof s->says, "%s", tiny_ctx_message(ctx));
        return TINY_E_MEMORY;
    }
    memset(t->peer, 0, (size_t)t->net.world * sizeof *t->peer);
    memset(t->net.count, 0, (size_t)t->net.world * sizeof *t->net.count);
    for (i = 0; i < t->net.world; i++) {
        t->peer[i].in = t->memory + 128 + (size_t)i * each;
        t->peer[i].out = t->peer[i].in + TINY_MPI_HEAD + t->n_short;
    }
    code = MPI_Comm_idup(from, &t->comm, &r);
    if (code == MPI_SUCCESS) code = tiny_mpi_await(&r, end);
    st = code == -1 ? TINY_E_TIMEOUT : code != MPI_SUCCESS ? TINY_E_PEER : TINY_OK;
    if (!st) {
        t->has_comm = 1;
        (void)MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
        st = tiny_mpi_agree(t, end, &code);
    }
    if (st == TINY_E_TIMEOUT)
        (void)snprintf(s->says, sizeof s->says, "not all of the %d ranks have called tiny_mpi_open within %.3g s",
                       t->net.world, 1e-9 * (double)open);
    else if (st == TINY_E_PROTOCOL)
        (void)snprintf(s->says, sizeof s->says, "the ranks differ in n_short, n_piece or their order of bytes");
    else if (st) {
        char text[200];
        tiny_mpi_text(code, text, sizeof text);
        (void)snprintf(s->says, sizeof s->says, "the ranks cannot be joined: MPI says %.150s", text);
    }
    return st;
}

TINY_MPI_FN tiny_status tiny_mpi_open(tiny_ctx *ctx, const tiny_mpi_desc *desc, tiny_mpi **out)
{
    tiny_mpi_desc d;
    tiny_mpi_sentence s;
    tiny_mpi *t;
    tiny_status st = TINY_OK;
    int is = 0, over = 0, level = 0;
    if (out) *out = NULL;
    if (!ctx) return TINY_E_ARGUMENT;
    memset(&s, 0, sizeof s);
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (!out) {
        (void)snprintf(s.says, sizeof s.says, "tiny_mpi_open needs an output pointer");
        return tiny_mpi_fail(ctx, &s, TINY_E_ARGUMENT);
    }
    if (d.n_short > TINY_MPI_MOST - TINY_MPI_HEAD) {
        (void)snprintf(s.says, sizeof s.says, "n_short of %llu bytes, the maximum is %llu",
                       (unsigned long long)d.n_short, (unsigned long long)(TINY_MPI_MOST - TINY_MPI_HEAD));
        return tiny_mpi_fail(ctx, &s, TINY_E_ARGUMENT);
    }
    (void)MPI_Finalized(&over);
    if (over) {
        (void)snprintf(s.says, sizeof s.says, "MPI has ended in this process, and cannot be started again");
        return tiny_mpi_fail(ctx, &s, TINY_E_UNSUPPORTED);
    }
    t = (tiny_mpi *)tiny_alloc(ctx, sizeof *t);
    if (!t) return TINY_E_MEMORY;
    memset(t, 0, sizeof *t);
    (void)MPI_Initialized(&is);
    if (!is) {
        t->owns = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) == MPI_SUCCESS;
        if (!t->owns) {
            (void)snprintf(s.says, sizeof s.says, "MPI could not be started");
            st = TINY_E_IO;
        }
    } else (void)MPI_Query_thread(&level);
    if (!st && level < MPI_THREAD_SERIALIZED && !d.one_thread) {
        (void)snprintf(s.says, sizeof s.says, "this MPI does not allow calls from several threads: start it with "
                                              "MPI_THREAD_SERIALIZED, or set one_thread");
        st = TINY_E_UNSUPPORTED;
    }
    t->n_short = d.n_short ? d.n_short : 16384;
    t->n_piece = d.n_piece && d.n_piece < TINY_MPI_MOST ? d.n_piece : TINY_MPI_MOST;
    t->last_ns = d.last_ns;
    t->spin_ns = d.spin_ns ? d.spin_ns : 500000;
    t->net.send = tiny_mpi_send;
    t->net.recv = tiny_mpi_recv;
    t->net.close = tiny_mpi_shut;
    t->net.changes = tiny_mpi_changes;
    t->net.pause = tiny_mpi_pause;
    t->net.wake = tiny_mpi_wake;
#ifndef _WIN32
    t->has_lock = !d.one_thread && pthread_mutex_init(&t->lock, NULL) == 0;
#endif
    if (!st) st = tiny_mpi_join(ctx, t, &d, &s);
    t->whole = !st;
    if (st) {
        t->closed = 1;
        t->alone = st != TINY_E_ARGUMENT && st != TINY_E_UNSUPPORTED && st != TINY_E_PROTOCOL;
        tiny_mpi_close(ctx, t);
        return tiny_mpi_fail(ctx, &s, st);
    }
    *out = t;
    return TINY_OK;
}

TINY_MPI_FN tiny_net *tiny_mpi_net(tiny_mpi *t) { return t ? &t->net : NULL; }

TINY_MPI_FN void tiny_mpi_close(tiny_ctx *ctx, tiny_mpi *t)
{
    int left;
    if (!t) return;
    if (!t->closed) tiny_mpi_shut(&t->net);
    left = t->whole ? tiny_mpi_linger(t, 0) : t->alone;
    if (!left && t->has_comm) (void)MPI_Comm_free(&t->comm);
    if (!left && t->owns) (void)MPI_Finalize();
#ifndef _WIN32
    if (t->has_lock) (void)pthread_mutex_destroy(&t->lock);
#endif
    if (!left || !t->has_comm) {            /* else MPI may still read it */
        tiny_free(ctx, t->memory);
        tiny_free(ctx, t->peer);
    }
    tiny_free(ctx, t->net.count);
    tiny_free(ctx, t);
}

#endif
