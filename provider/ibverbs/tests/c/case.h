/*
 * What the C programs have in common: named cases, a network of their own, and a pair of connected QPs.
 *
 * The programs are compiled against the system's header and run on the library under test as any program would.
 */
#ifndef CASE_H
#define CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Ends the program with what was expected and what errno says. */
#define CHECK(condition)                                                                            \
	do {                                                                                        \
		if (!(condition)) {                                                                 \
			fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__,   \
				#condition, errno, strerror(errno));                                \
			exit(1);                                                                    \
		}                                                                                   \
	} while (0)

/* The same for numbers, which it shows. */
#define CHECK_EQ(left, right)                                                                       \
	do {                                                                                        \
		long long l = (long long)(left), r = (long long)(right);                            \
		if (l != r) {                                                                       \
			fprintf(stderr, "%s:%d: %s is %lld and not %s = %lld\n", __FILE__,          \
				__LINE__, #left, l, #right, r);                                     \
			exit(1);                                                                    \
		}                                                                                   \
	} while (0)

/* A call that returns a null pointer and sets errno. */
#define CHECK_NULL(call, error)                                                                     \
	do {                                                                                        \
		errno = 0;                                                                          \
		CHECK((call) == NULL);                                                              \
		CHECK_EQ(errno, error);                                                             \
	} while (0)

struct test_case {
	const char *name;
	void (*run)(void);
};

/* A network namespace with loopback up, where that is allowed; the host's network otherwise. */
static inline void own_network(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	CHECK(fd >= 0);
	CHECK(!ioctl(fd, SIOCGIFFLAGS, &request));
	request.ifr_flags |= IFF_UP;
	CHECK(!ioctl(fd, SIOCSIFFLAGS, &request));
	close(fd);
}

static inline int run_case(int argc, char **argv, const struct test_case *cases)
{
	for (; argc == 2 && cases->name; cases++) {
		if (strcmp(cases->name, argv[1]))
			continue;
		own_network();
		cases->run();
		return 0;
	}
	fprintf(stderr, "no such case\n");
	return 2;
}

/* What most cases need: two QPs of one process, connected to each other over loopback. */
struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	char memory[2][8192];
};

enum { WR_MAX = 8, SGE_MAX = 4, INLINE_MAX = 64, GID_INDEX = 1 };

static inline struct ibv_context *open_loopback(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	int i;

	CHECK(list != NULL);
	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "ferroce_lo"))
			context = ibv_open_device(list[i]);
	CHECK(context != NULL);
	ibv_free_device_list(list);
	return context;
}

static inline struct ibv_qp_init_attr_ex qp_attr_of(struct pair *pair, int i)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = pair->cq[i],
		.recv_cq = pair->cq[i],
		.cap = { .max_send_wr = WR_MAX,
			 .max_recv_wr = WR_MAX,
			 .max_send_sge = SGE_MAX,
			 .max_recv_sge = SGE_MAX,
			 .max_inline_data = INLINE_MAX },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};
}

static inline int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t dest_qp_num)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qp_num,
		.rq_psn = 100,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = GID_INDEX, .hop_limit = 1 } },
	};

	CHECK(!ibv_query_gid(qp->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid));
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.sq_psn = 100,
		.max_rd_atomic = 1,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				     IBV_QP_MAX_QP_RD_ATOMIC);
}

static inline void connect_pair(struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++)
		CHECK_EQ(to_init(pair->qp[i]), 0);
	for (i = 0; i < 2; i++)
		CHECK_EQ(to_rtr(pair->qp[i], pair->qp[!i]->qp_num), 0);
	for (i = 0; i < 2; i++)
		CHECK_EQ(to_rts(pair->qp[i]), 0);
}

/* Objects up to the CQs. */
static inline struct pair *open_pair(void)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	int i;

	pair->context = open_loopback();
	pair->pd = ibv_alloc_pd(pair->context);
	CHECK(pair->pd != NULL);
	pair->channel = ibv_create_comp_channel(pair->context);
	CHECK(pair->channel != NULL);
	for (i = 0; i < 2; i++) {
		pair->cq[i] = ibv_create_cq(pair->context, 64, pair, pair->channel, 0);
		CHECK(pair->cq[i] != NULL);
		pair->mr[i] = ibv_reg_mr(pair->pd, pair->memory[i], sizeof(pair->memory[i]),
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
		CHECK(pair->mr[i] != NULL);
	}
	return pair;
}

/* QPs made by ibv_create_qp, or by ibv_create_qp_ex for these operations, and connected. */
static inline struct pair *connected_pair(uint64_t send_ops)
{
	struct pair *pair = open_pair();
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, i);

		if (send_ops) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = send_ops;
		}
		pair->qp[i] = ibv_create_qp_ex(pair->context, &attr);
		CHECK(pair->qp[i] != NULL);
	}
	connect_pair(pair);
	return pair;
}

static inline void close_pair(struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++) {
		CHECK_EQ(ibv_destroy_qp(pair->qp[i]), 0);
		CHECK_EQ(ibv_destroy_cq(pair->cq[i]), 0);
		CHECK_EQ(ibv_dereg_mr(pair->mr[i]), 0);
	}
	CHECK_EQ(ibv_destroy_comp_channel(pair->channel), 0);
	CHECK_EQ(ibv_dealloc_pd(pair->pd), 0);
	CHECK_EQ(ibv_close_device(pair->context), 0);
	free(pair);
}

static inline void post_receive(struct pair *pair, int i, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[i], sizeof(pair->memory[i]), pair->mr[i]->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_EQ(ibv_post_recv(pair->qp[i], &wr, &bad), 0);
}

/* Polls until a completion comes. The peer is this process, so one does come, or the transport gives up. */
static inline struct ibv_wc completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK_EQ(n, 1);
	return wc;
}

#endif
