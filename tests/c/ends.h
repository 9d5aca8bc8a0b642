/*
 * Two ends of an RC connection in one process, over the first device there is, and the checks that the cases share.
 *
 * A case is a function; main() picks it by name. It returns when all is well and exits with status 1, after a line
 * that says what was wrong, when not. Environment: GID_INDEX (default 1).
 */
#ifndef ENDS_H
#define ENDS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long a completion may take before it counts as lost. Nothing takes a hundredth of it on an idle machine. */
#define PATIENCE_S 60
#define BUFFER_SIZE (1u << 20)
#define ALL_ACCESS                                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

#define CHECK(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                             \
	} while (0)

struct settings {
	enum ibv_mtu mtu;
	uint32_t max_send_wr, max_recv_wr;
	/* 4.096 us * 2^timeout, 0 waits for ever */
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer;
	struct settings settings;
};

static const struct settings ORDINARY = {
	.mtu = IBV_MTU_1024,
	.max_send_wr = 64,
	.max_recv_wr = 64,
	.timeout = 0, /* loopback loses nothing, so a lost answer shows as a lost completion */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
};

__attribute__((noreturn, format(printf, 4, 5))) static inline void fail(const char *file, int line,
									 const char *condition, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s:%d: not true: %s: ", file, line, condition);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	exit(1);
}

static inline uint8_t gid_index(void)
{
	const char *text = getenv("GID_INDEX");

	return text ? (uint8_t)atoi(text) : 1;
}

static inline struct ibv_context *open_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count > 0, "no devices");
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(list);
	return context;
}

static inline double now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Waits for one completion. */
static inline struct ibv_wc next_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	double deadline = now_s() + PATIENCE_S;

	do {
		int polled = ibv_poll_cq(cq, 1, &wc);
		CHECK(polled >= 0, "ibv_poll_cq: %d", polled);
		if (polled)
			return wc;
	} while (now_s() < deadline);
	CHECK(0, "no completion in %d s", PATIENCE_S);
}

/* Waits for one completion, which has to be this one. */
static inline struct ibv_wc expect(struct end *end, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = next_completion(end->cq);

	CHECK(wc.wr_id == wr_id && wc.status == status, "expected wr_id %llu, %s; got wr_id %llu, %s (vendor_err %#x)",
	      (unsigned long long)wr_id, ibv_wc_status_str(status), (unsigned long long)wc.wr_id,
	      ibv_wc_status_str(wc.status), wc.vendor_err);
	return wc;
}

static inline void expect_nothing(struct end *end)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(end->cq, 1, &wc) == 0, "unexpected completion: wr_id %llu, %s",
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static inline struct ibv_qp *create_qp(struct end *end)
{
	const struct settings *s = &end->settings;
	struct ibv_qp_init_attr_ex init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = { .max_send_wr = s->max_send_wr,
			 .max_recv_wr = s->max_recv_wr,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = end->pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(end->context, &init);

	CHECK(qp, "ibv_create_qp_ex: %s", strerror(errno));
	return qp;
}

static inline struct end make_end(struct ibv_context *context, struct settings settings)
{
	struct end end = { .context = context, .settings = settings };

	end.pd = ibv_alloc_pd(context);
	CHECK(end.pd, "ibv_alloc_pd: %s", strerror(errno));
	end.cq = ibv_create_cq(context, 1024, NULL, NULL, 0);
	CHECK(end.cq, "ibv_create_cq: %s", strerror(errno));
	end.buffer = calloc(1, BUFFER_SIZE);
	end.mr = ibv_reg_mr(end.pd, end.buffer, BUFFER_SIZE, ALL_ACCESS);
	CHECK(end.mr, "ibv_reg_mr: %s", strerror(errno));
	end.qp = create_qp(&end);
	return end;
}

static inline void free_end(struct end *end)
{
	CHECK(ibv_destroy_qp(end->qp) == 0, "ibv_destroy_qp");
	CHECK(ibv_dereg_mr(end->mr) == 0, "ibv_dereg_mr");
	CHECK(ibv_destroy_cq(end->cq) == 0, "ibv_destroy_cq");
	CHECK(ibv_dealloc_pd(end->pd) == 0, "ibv_dealloc_pd");
	free(end->buffer);
}

static inline void to_init(struct end *end)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS };
	int error = ibv_modify_qp(end->qp, &attr,
				  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	CHECK(error == 0, "to INIT: %s", strerror(error));
}

static inline void to_rtr(struct end *end, const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->settings.mtu,
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer->qp->qp_num & 0xffff,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = end->settings.min_rnr_timer,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64, .sgid_index = gid_index() } },
	};
	int error = ibv_query_gid(peer->context, 1, gid_index(), &attr.ah_attr.grh.dgid);

	CHECK(error == 0, "ibv_query_gid: %s", strerror(errno));
	error = ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	CHECK(error == 0, "to RTR: %s", strerror(error));
}

static inline void to_rts(struct end *end)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = end->qp->qp_num & 0xffff,
		.max_rd_atomic = 4,
		.timeout = end->settings.timeout,
		.retry_cnt = end->settings.retry_cnt,
		.rnr_retry = end->settings.rnr_retry,
	};
	int error = ibv_modify_qp(end->qp, &attr,
				  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
					  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);

	CHECK(error == 0, "to RTS: %s", strerror(error));
}

static inline void to_state(struct end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int error = ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);

	CHECK(error == 0, "to state %d: %s", (int)state, strerror(error));
}

static inline void connect_ends(struct end *a, struct end *b)
{
	to_init(a), to_init(b);
	to_rtr(a, b), to_rtr(b, a);
	to_rts(a), to_rts(b);
}

/* Gives both a new connection, with whatever the old one ended in gone. */
static inline void reconnect_ends(struct end *a, struct end *b)
{
	struct ibv_wc wc;

	to_state(a, IBV_QPS_RESET), to_state(b, IBV_QPS_RESET);
	while (ibv_poll_cq(a->cq, 1, &wc) > 0)
		;
	while (ibv_poll_cq(b->cq, 1, &wc) > 0)
		;
	connect_ends(a, b);
}

static inline struct ibv_sge sge_at(const struct end *end, size_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)end->buffer + offset, .length = length, .lkey = end->mr->lkey };
}

static inline void post_recv(struct end *end, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_at(end, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;
	int error = ibv_post_recv(end->qp, &wr, &bad);

	CHECK(error == 0, "ibv_post_recv: %s", strerror(error));
}

/* A signalled WR from `offset` of one buffer to, or from, the same offset of the other. */
static inline struct ibv_send_wr wr_of(const struct end *peer, uint64_t wr_id, enum ibv_wr_opcode opcode,
				       struct ibv_sge *sge, size_t offset)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED
	};

	wr.wr.rdma.remote_addr = (uintptr_t)peer->buffer + offset;
	wr.wr.rdma.rkey = peer->mr->rkey;
	return wr;
}

static inline void post_wr(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(end->qp, wr, &bad);

	CHECK(error == 0, "ibv_post_send: %s", strerror(error));
}

static inline void post(struct end *end, const struct end *peer, uint64_t wr_id, enum ibv_wr_opcode opcode,
			size_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_at(end, offset, length);
	struct ibv_send_wr wr = wr_of(peer, wr_id, opcode, &sge, offset);

	post_wr(end, &wr);
}

/* Bytes that differ from their neighbours, from place to place and from `seed` to `seed`. */
static inline void fill(uint8_t *bytes, size_t length, uint32_t seed)
{
	uint32_t state = seed * 2654435761u + 1;

	for (size_t i = 0; i < length; i++) {
		state = state * 1664525u + 1013904223u;
		bytes[i] = (uint8_t)(state >> 24);
	}
}

static inline void expect_filled(const uint8_t *bytes, size_t length, uint32_t seed, const char *what)
{
	uint32_t state = seed * 2654435761u + 1;

	for (size_t i = 0; i < length; i++) {
		state = state * 1664525u + 1013904223u;
		CHECK(bytes[i] == (uint8_t)(state >> 24), "%s: byte %zu of %zu is wrong", what, i, length);
	}
}

static inline void expect_all(const uint8_t *bytes, size_t length, uint8_t value, const char *what)
{
	for (size_t i = 0; i < length; i++)
		CHECK(bytes[i] == value, "%s: byte %zu was touched", what, i);
}

struct named_case {
	const char *name;
	void (*body)(void);
};

static inline int run_case(const struct named_case *cases, size_t count, int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < count; i++) {
		if (strcmp(cases[i].name, argv[1]) == 0) {
			cases[i].body();
			return 0;
		}
	}
	fprintf(stderr, "no such case\n");
	return 2;
}

#define MAIN(...)                                                                                                      \
	int main(int argc, char **argv)                                                                                \
	{                                                                                                              \
		static const struct named_case cases[] = { __VA_ARGS__ };                                              \
		return run_case(cases, sizeof cases / sizeof cases[0], argc, argv);                                    \
	}

#endif
