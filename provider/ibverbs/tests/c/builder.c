/* ibv_wr_post(3): requests built by calls. */
#include "case.h"

static const uint64_t OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
			    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
			    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

static struct ibv_qp_ex *start(struct pair *pair, uint64_t wr_id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[0]);

	CHECK(qp != NULL);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

/* D17 */
static void sge_lists(void)
{
	struct pair *pair = connected_pair(OPS);
	uint32_t lkey = pair->mr[0]->lkey;
	uintptr_t at = (uintptr_t)pair->memory[0];
	struct ibv_sge sges[3] = { { at, 3, lkey }, { at + 100, 5, lkey }, { at + 200, 7, lkey } };
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	memcpy(pair->memory[0], "abc", 3);
	memcpy(pair->memory[0] + 100, "defgh", 5);
	memcpy(pair->memory[0] + 200, "ijklmno", 7);
	post_receive(pair, 1, 1);
	qp = start(pair, 42);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 3, sges);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	wc = completion(pair->cq[1]);
	CHECK_EQ(wc.byte_len, 15);
	CHECK(!memcmp(pair->memory[1], "abcdefghijklmno", 15));
	wc = completion(pair->cq[0]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, 42);

	qp = start(pair, 43);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, SGE_MAX + 1, sges);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	close_pair(pair);
}

static void inline_data(void)
{
	struct pair *pair = connected_pair(OPS);
	char text[] = "hello, world";
	struct ibv_data_buf bufs[2] = { { text, 5 }, { text + 5, 7 } };
	struct ibv_data_buf long_bufs[2] = { { text, INLINE_MAX }, { text, 1 } };
	struct ibv_data_buf wrapping[2] = { { text, SIZE_MAX }, { text, 2 } };
	struct ibv_qp_ex *qp;
	int i;

	for (i = 0; i < 2; i++) {
		memset(pair->memory[1], 0, 32);
		strcpy(text, "hello, world");
		post_receive(pair, 1, i);
		qp = start(pair, i);
		ibv_wr_send_imm(qp, 0x0a0b0c0d);
		if (i)
			ibv_wr_set_inline_data_list(qp, 2, bufs);
		else
			ibv_wr_set_inline_data(qp, text, 12);
		memset(text, '#', 12);
		CHECK_EQ(ibv_wr_complete(qp), 0);
		CHECK_EQ(completion(pair->cq[1]).imm_data, 0x0a0b0c0d);
		CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
		CHECK(!memcmp(pair->memory[1], "hello, world", 12));
	}
	qp = start(pair, 9);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 2, long_bufs);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	qp = start(pair, 9);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 2, wrapping);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	close_pair(pair);
}

static void one_sided_operations(void)
{
	struct pair *pair = connected_pair(OPS);
	uint64_t *here = (uint64_t *)pair->memory[0], *there = (uint64_t *)pair->memory[1];
	uint32_t lkey = pair->mr[0]->lkey, rkey = pair->mr[1]->rkey;
	struct ibv_qp_ex *qp = start(pair, 1);

	here[0] = 7;
	there[1] = 100;
	ibv_wr_rdma_write(qp, rkey, (uintptr_t)&there[0]);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)&here[0], 8);
	qp->wr_id = 2;
	ibv_wr_rdma_read(qp, rkey, (uintptr_t)&there[1]);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)&here[1], 8);
	qp->wr_id = 3;
	ibv_wr_atomic_fetch_add(qp, rkey, (uintptr_t)&there[1], 5);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)&here[2], 8);
	qp->wr_id = 4;
	ibv_wr_atomic_cmp_swp(qp, rkey, (uintptr_t)&there[1], 105, 1);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)&here[3], 8);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	for (int i = 1; i <= 4; i++) {
		struct ibv_wc wc = completion(pair->cq[0]);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	CHECK_EQ(there[0], 7);
	CHECK_EQ(here[1], 100);
	CHECK_EQ(here[2], 100);
	CHECK_EQ(here[3], 105);
	CHECK_EQ(there[1], 1);
	close_pair(pair);
}

static void all_or_nothing(void)
{
	struct pair *pair = connected_pair(OPS);
	struct ibv_qp_ex *qp = start(pair, 0);
	struct ibv_wc wc;
	int i;

	/* One too many: none is posted. */
	for (i = 0; i < WR_MAX + 1; i++) {
		qp->wr_id = i;
		ibv_wr_rdma_write(qp, pair->mr[1]->rkey, (uintptr_t)pair->memory[1]);
	}
	CHECK_EQ(ibv_wr_complete(qp), ENOMEM);

	/* Given up: none is posted either. */
	qp = start(pair, 50);
	ibv_wr_rdma_write(qp, pair->mr[1]->rkey, (uintptr_t)pair->memory[1]);
	ibv_wr_abort(qp);

	qp = start(pair, 60);
	ibv_wr_rdma_write(qp, pair->mr[1]->rkey, (uintptr_t)pair->memory[1]);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	wc = completion(pair->cq[0]);
	CHECK_EQ(wc.wr_id, 60);
	CHECK_EQ(ibv_poll_cq(pair->cq[0], 1, &wc), 0);
	close_pair(pair);
}

static void operations_not_asked_for(void)
{
	struct pair *pair = connected_pair(IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *qp = start(pair, 1);
	struct ibv_qp_init_attr_ex attr = qp_attr_of(pair, 0);
	struct ibv_qp *plain;

	ibv_wr_rdma_read(qp, pair->mr[1]->rkey, (uintptr_t)pair->memory[1]);
	CHECK_EQ(ibv_wr_complete(qp), EOPNOTSUPP);
	/* Nothing of it stays. */
	post_receive(pair, 1, 1);
	qp = start(pair, 2);
	ibv_wr_send(qp);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(completion(pair->cq[0]).wr_id, 2);

	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_TSO;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EOPNOTSUPP);
	attr.send_ops_flags = 1ULL << 40;
	CHECK_NULL(ibv_create_qp_ex(pair->context, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	plain = ibv_create_qp_ex(pair->context, &attr);
	CHECK(plain != NULL && ibv_qp_to_qp_ex(plain) == NULL);
	CHECK_EQ(ibv_destroy_qp(plain), 0);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "sge_lists", sge_lists },
		{ "inline_data", inline_data },
		{ "one_sided_operations", one_sided_operations },
		{ "all_or_nothing", all_or_nothing },
		{ "operations_not_asked_for", operations_not_asked_for },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
