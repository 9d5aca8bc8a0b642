/* The memory placement extensions: FLUSH and ATOMIC_WRITE. */
#include "case.h"
#include <stddef.h>
#include <sys/mman.h>

/* Newer than rdma-core 44, whose header has the structure up to wr_atomic_write. */
enum { WITH_FLUSH = 1 << 11, WITH_ATOMIC_WRITE = 1 << 12, GLOBAL = 1, PERSISTENT = 2, RANGE = 0, WHOLE_MR = 1 };
enum { FLUSH_GLOBAL = 1 << 8, FLUSH_PERSISTENT = 1 << 9, WC_FLUSH = 8, WC_ATOMIC_WRITE = 9 };
typedef void flush_call(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

static void flush(struct ibv_qp_ex *qp, uint32_t rkey, const void *at, size_t length, uint8_t type, uint8_t level)
{
	flush_call *call;

	memcpy(&call, (char *)qp + 352, sizeof(call));
	call(qp, rkey, (uintptr_t)at, length, type, level);
}

static void allow_flush(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | FLUSH_GLOBAL | FLUSH_PERSISTENT,
	};

	CHECK_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
}

static struct ibv_qp_ex *start(struct pair *pair, uint64_t wr_id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->qp[0]);

	CHECK(qp != NULL);
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static struct ibv_wc done(struct pair *pair, struct ibv_qp_ex *qp)
{
	CHECK_EQ(ibv_wr_complete(qp), 0);
	return completion(pair->cq[0]);
}

static void capabilities(void)
{
	struct ibv_context *context = open_loopback();
	struct ibv_device_attr_ex attr;

	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
	CHECK_EQ(attr.device_cap_flags_ex >> 38 & 7, 7);
	CHECK_EQ((uint32_t)attr.device_cap_flags_ex, attr.orig_attr.device_cap_flags);
	CHECK_EQ(ibv_close_device(context), 0);
}

static void flushes(void)
{
	struct pair *pair = connected_pair(WITH_FLUSH | IBV_QP_EX_WITH_RDMA_WRITE);
	int fd = memfd_create("persistent", 0);
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | FLUSH_GLOBAL | FLUSH_PERSISTENT;
	struct ibv_mr *mr, *visible;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;
	char *file, back[8];

	allow_flush(pair->qp[1]);
	CHECK(fd >= 0 && !ftruncate(fd, 8192));
	file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	/* Memory of which nothing is left when the process ends cannot be made persistent. */
	CHECK_NULL(ibv_reg_mr(pair->pd, pair->memory[1], 4096, access), EINVAL);
	visible = ibv_reg_mr(pair->pd, pair->memory[1], 4096, access - FLUSH_PERSISTENT);
	mr = ibv_reg_mr(pair->pd, file, 8192, access);
	CHECK(mr != NULL && visible != NULL);

	memcpy(pair->memory[0], "persists", 8);
	qp = start(pair, 1);
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)file + 4090);
	ibv_wr_set_sge(qp, pair->mr[0]->lkey, (uintptr_t)pair->memory[0], 8);
	qp->wr_id = 2;
	flush(qp, mr->rkey, file + 4090, 8, GLOBAL | PERSISTENT, RANGE);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(completion(pair->cq[0]).wr_id, 1);
	wc = completion(pair->cq[0]);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.wr_id, 2);
	CHECK_EQ(wc.opcode, WC_FLUSH);
	CHECK_EQ(pread(fd, back, 8, 4090), 8);
	CHECK(!memcmp(back, "persists", 8));
	qp = start(pair, 3);
	flush(qp, visible->rkey, NULL, 0, GLOBAL, WHOLE_MR);
	CHECK_EQ(done(pair, qp).status, IBV_WC_SUCCESS);

	/* What no FLUSH can be, and what the peer does not allow. */
	qp = start(pair, 4);
	flush(qp, mr->rkey, file, 8, 0, RANGE);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	qp = start(pair, 4);
	flush(qp, mr->rkey, file, 8, 4, RANGE);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	qp = start(pair, 4);
	flush(qp, mr->rkey, file, 8, GLOBAL, 2);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	qp = start(pair, 4);
	flush(qp, mr->rkey, file, 1ULL << 32, GLOBAL, RANGE);
	CHECK_EQ(ibv_wr_complete(qp), EINVAL);
	qp = start(pair, 5);
	flush(qp, visible->rkey, pair->memory[1], 8, PERSISTENT, RANGE);
	CHECK_EQ(done(pair, qp).status, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dereg_mr(visible), 0);
	close_pair(pair);
}

static void flush_of_a_qp_without_the_right(void)
{
	struct pair *pair = connected_pair(WITH_FLUSH);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory[1], 4096, FLUSH_GLOBAL);
	struct ibv_qp_ex *qp = start(pair, 1);

	CHECK(mr != NULL);
	flush(qp, mr->rkey, pair->memory[1], 8, GLOBAL, RANGE);
	CHECK_EQ(done(pair, qp).status, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_pair(pair);
}

static void atomic_writes(void)
{
	struct pair *pair = connected_pair(WITH_ATOMIC_WRITE);
	uint64_t *there = (uint64_t *)pair->memory[1], word = 0x0102030405060708;
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)&there[2], pair->mr[1]->rkey },
	}, *bad;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	qp = start(pair, 1);
	ibv_wr_atomic_write(qp, pair->mr[1]->rkey, (uintptr_t)&there[1], &word);
	word = 0;
	wc = done(pair, qp);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.opcode, WC_ATOMIC_WRITE);
	CHECK_EQ(there[1], 0x0102030405060708);
	CHECK(!there[0] && !there[2]);
	memcpy(pair->memory[0], "8 bytes!", 8);
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	CHECK_EQ(completion(pair->cq[0]).wr_id, 2);
	CHECK(!memcmp(&there[2], "8 bytes!", 8));
	/* Anything but 8 aligned bytes. */
	qp = start(pair, 3);
	ibv_wr_atomic_write(qp, pair->mr[1]->rkey, (uintptr_t)&there[3] + 4, &word);
	CHECK_EQ(done(pair, qp).status, IBV_WC_REM_INV_REQ_ERR);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "capabilities", capabilities },
		{ "flushes", flushes },
		{ "flush_of_a_qp_without_the_right", flush_of_a_qp_without_the_right },
		{ "atomic_writes", atomic_writes },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
