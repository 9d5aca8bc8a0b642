/* ibv_post_send and ibv_post_recv: what they refuse, with which number, and what bad_wr says. */
#include "case.h"

static struct ibv_send_wr send_wr(struct ibv_sge *sges, int num_sge)
{
	return (struct ibv_send_wr){ .wr_id = 1, .sg_list = sges, .num_sge = num_sge, .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED };
}

/* D14 */
static void send_queue_overflow(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wrs[WR_MAX + 2], *bad = NULL;
	int i;

	for (i = 0; i < WR_MAX + 2; i++) {
		wrs[i] = send_wr(&sge, 1);
		wrs[i].opcode = IBV_WR_RDMA_WRITE;
		wrs[i].wr.rdma.remote_addr = (uintptr_t)pair->memory[1];
		wrs[i].wr.rdma.rkey = pair->mr[1]->rkey;
		wrs[i].wr_id = i;
		wrs[i].next = i < WR_MAX + 1 ? &wrs[i + 1] : NULL;
	}
	CHECK_EQ(ibv_post_send(pair->qp[0], wrs, &bad), ENOMEM);
	CHECK_EQ(bad - wrs, WR_MAX);
	for (i = 0; i < WR_MAX; i++)
		CHECK_EQ(completion(pair->cq[0]).wr_id, i);
	/* Room is back with the completions. */
	CHECK_EQ(ibv_post_send(pair->qp[0], bad, &bad), 0);
	for (i = WR_MAX; i < WR_MAX + 2; i++)
		CHECK_EQ(completion(pair->cq[0]).wr_id, i);
	close_pair(pair);
}

static void receive_queue_overflow(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_recv_wr wr = { .wr_id = 9 }, *bad = NULL;
	int i;

	for (i = 0; i < WR_MAX; i++)
		post_receive(pair, 0, i);
	CHECK_EQ(ibv_post_recv(pair->qp[0], &wr, &bad), ENOMEM);
	CHECK(bad == &wr);
	close_pair(pair);
}

/* D18 */
static void states_without_a_queue(void)
{
	struct pair *pair = open_pair();
	struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, 0);
	struct ibv_qp *qp = ibv_create_qp_ex(pair->context, &attr);
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_recv_wr recv_wr = { .sg_list = &sge, .num_sge = 1 }, *bad_recv = NULL;
	struct ibv_send_wr wr = send_wr(&sge, 1), *bad = NULL;

	CHECK_EQ(qp->state, IBV_QPS_RESET);
	CHECK_EQ(ibv_post_recv(qp, &recv_wr, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv_wr);
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQ(to_init(qp), 0);
	CHECK_EQ(qp->state, IBV_QPS_INIT);
	CHECK_EQ(ibv_post_recv(qp, &recv_wr, &bad_recv), 0);
	bad = NULL;
	CHECK_EQ(ibv_post_send(qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_EQ(ibv_destroy_qp(qp), 0);
}

static void lists_that_are_too_long(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_sge sges[SGE_MAX + 1] = { 0 };
	struct ibv_send_wr second = send_wr(sges, SGE_MAX + 1), wr = send_wr(NULL, 0), *bad = NULL;
	struct ibv_recv_wr recv_second = { .wr_id = 2, .sg_list = sges, .num_sge = SGE_MAX + 1 };
	struct ibv_recv_wr recv_wr = { .wr_id = 1, .next = &recv_second }, *bad_recv = NULL;

	CHECK_EQ(ibv_post_recv(pair->qp[1], &recv_wr, &bad_recv), EINVAL);
	CHECK(bad_recv == &recv_second);

	wr.next = &second;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
	CHECK(bad == &second);
	/* The one before it was posted. */
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(completion(pair->cq[1]).wr_id, 1);

	second.num_sge = -1;
	CHECK_EQ(ibv_post_send(pair->qp[0], &second, &bad), EINVAL);
	second.num_sge = 1;
	second.sg_list = NULL;
	CHECK_EQ(ibv_post_send(pair->qp[0], &second, &bad), EINVAL);
	close_pair(pair);
}

static void opcodes_that_do_not_exist(void)
{
	struct pair *pair = connected_pair(0);
	int opcodes[] = { IBV_WR_TSO, IBV_WR_DRIVER1, 14, 99 };
	unsigned int i;

	for (i = 0; i < sizeof(opcodes) / sizeof(*opcodes); i++) {
		struct ibv_send_wr wr = send_wr(NULL, 0), *bad = NULL;

		wr.opcode = opcodes[i];
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
		CHECK(bad == &wr);
	}
	close_pair(pair);
}

/* D16 */
static void inline_lists(void)
{
	struct pair *pair = connected_pair(0);
	char text[] = "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789";
	struct ibv_sge sges[3] = { { (uintptr_t)text, 3, 0 }, { (uintptr_t)text + 3, 5, 0 },
				   { (uintptr_t)text + 8, 7, 0 } };
	struct ibv_send_wr wr = send_wr(sges, 3), *bad = NULL;
	struct ibv_wc wc;

	wr.send_flags |= IBV_SEND_INLINE;
	post_receive(pair, 1, 5);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	/* The caller's memory is free again at once. */
	memset(text, '#', sizeof(text));
	wc = completion(pair->cq[1]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 15);
	CHECK(!memcmp(pair->memory[1], "abcdefghijklmno", 15));
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);

	sges[2].length = INLINE_MAX - 3 - 5;
	post_receive(pair, 1, 6);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[1]).byte_len, INLINE_MAX);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	sges[2].length++;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	/* A sum past 2^32 that would come out small. */
	sges[0].length = UINT32_MAX;
	sges[1].length = 2;
	sges[2].length = 1;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
	wr.send_flags &= ~IBV_SEND_INLINE;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), EINVAL);
	close_pair(pair);
}

/* Immediate data is in network order and passed through; a QP in ERR takes requests and flushes them. */
static void immediate_data_and_flush(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr wr = send_wr(NULL, 0), *bad;
	struct ibv_wc wc;

	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 0x01020304;
	post_receive(pair, 1, 77);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	wc = completion(pair->cq[1]);
	CHECK_EQ(wc.wr_id, 77);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0x01020304);
	CHECK_EQ(wc.qp_num, pair->qp[1]->qp_num);
	wc = completion(pair->cq[0]);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);

	CHECK_EQ(ibv_modify_qp(pair->qp[0], &attr, IBV_QP_STATE), 0);
	CHECK_EQ(pair->qp[0]->state, IBV_QPS_ERR);
	post_receive(pair, 0, 3);
	wr.wr_id = 4;
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	for (int i = 0; i < 2; i++) {
		wc = completion(pair->cq[0]);
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		CHECK(wc.wr_id == 3 || wc.wr_id == 4);
	}
	close_pair(pair);
}

/*
 * A QP that is reset and connected again, with the numbers it had before, takes nothing from its earlier life: a card has
 * handled by then what had arrived.
 */
static void nothing_comes_from_before_a_reset(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	int i, round;

	for (round = 0; round < 100; round++) {
		struct ibv_sge sge = { (uintptr_t)pair->memory[0], 4, pair->mr[0]->lkey };
		struct ibv_send_wr wr = send_wr(&sge, 1), *bad = NULL;
		struct ibv_wc wc;

		post_receive(pair, 1, 1);
		memcpy(pair->memory[0], "old", 4);
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
		for (i = 0; i < 2; i++)
			CHECK_EQ(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);

		connect_pair(pair);
		post_receive(pair, 1, 2);
		memcpy(pair->memory[0], "new", 4);
		CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
		wc = completion(pair->cq[1]);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, 2);
		CHECK(!memcmp(pair->memory[1], "new", 4));
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
		for (i = 0; i < 2; i++)
			CHECK_EQ(ibv_modify_qp(pair->qp[i], &reset, IBV_QP_STATE), 0);
		connect_pair(pair);
	}
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "send_queue_overflow", send_queue_overflow },
		{ "receive_queue_overflow", receive_queue_overflow },
		{ "states_without_a_queue", states_without_a_queue },
		{ "lists_that_are_too_long", lists_that_are_too_long },
		{ "opcodes_that_do_not_exist", opcodes_that_do_not_exist },
		{ "inline_lists", inline_lists },
		{ "immediate_data_and_flush", immediate_data_and_flush },
		{ "nothing_comes_from_before_a_reset", nothing_comes_from_before_a_reset },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
