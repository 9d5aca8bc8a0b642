/* Regions of every kind: changed, on demand, of nothing, of device memory, of a file. */
#include "case.h"
#include <sys/mman.h>

/* One operation of A's on B's memory through the key; the status. */
static enum ibv_wc_status operate(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t va)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { va, rkey },
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = va;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = rkey;
	}
	CHECK_EQ(ibv_post_send(pair->qp[0], &wr, &bad), 0);
	return completion(pair->cq[0]).status;
}

/* A writes "abcdefgh" to B. */
static enum ibv_wc_status write_to(struct pair *pair, uint32_t rkey, uint64_t va)
{
	memcpy(pair->memory[0], "abcdefgh", 8);
	return operate(pair, IBV_WR_RDMA_WRITE, rkey, va);
}

static const int ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC;

static void changed_regions(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_pd *other = ibv_alloc_pd(pair->context);
	struct ibv_mr *mr = pair->mr[1];
	uint32_t rkey = mr->rkey;
	static char elsewhere[4096];

	/* What is wrong with the arguments, and what the device refuses; nothing changes. */
	CHECK_EQ(ibv_rereg_mr(mr, 1 << 7, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 100, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 0, 0), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, ALL), IBV_REREG_MR_ERR_INPUT);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
		 IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 8, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(errno, EFAULT);
	CHECK(mr->addr == pair->memory[1] && mr->length == sizeof(pair->memory[1]) && mr->pd == pair->pd);
	CHECK_EQ(write_to(pair, rkey, (uintptr_t)pair->memory[1]), IBV_WC_SUCCESS);

	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 64, 0), 0);
	CHECK(mr->addr == elsewhere && mr->length == 64 && mr->rkey == rkey);
	CHECK_EQ(write_to(pair, rkey, (uintptr_t)elsewhere + 56), IBV_WC_SUCCESS);
	CHECK(!memcmp(elsewhere + 56, "abcdefgh", 8));
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS, other, NULL, 0, ALL), 0);
	CHECK(mr->pd == other);
	CHECK_EQ(ibv_dealloc_pd(other), EBUSY);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair->pd, NULL, 0, 0), 0);
	CHECK_EQ(ibv_dealloc_pd(other), 0);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	CHECK_EQ(write_to(pair, rkey, (uintptr_t)elsewhere), IBV_WC_REM_ACCESS_ERR);
	close_pair(pair);
}

/* Memory that is not mapped when it is registered, and one region for all of it. */
static void on_demand(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_device_attr_ex attr;
	size_t page = sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr, *all;
	struct ibv_sge sge;
	unsigned int rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
			  IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;

	CHECK_EQ(ibv_query_device_ex(pair->context, NULL, &attr), 0);
	CHECK(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	CHECK_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, rc);
	CHECK_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps,
		 rc & ~(IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC));
	CHECK_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps,
		 IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV);
	CHECK_EQ(attr.xrc_odp_caps, rc);

	CHECK(memory != MAP_FAILED);
	CHECK_NULL(ibv_reg_mr(pair->pd, memory, 4 * page, ALL), EFAULT);
	mr = ibv_reg_mr(pair->pd, memory, 4 * page, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(mr != NULL);
	all = ibv_reg_mr(pair->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	CHECK(all != NULL);
	CHECK_NULL(ibv_reg_mr(pair->pd, NULL, SIZE_MAX, ALL), EINVAL);
	CHECK_NULL(ibv_reg_mr_iova(pair->pd, NULL, SIZE_MAX, 4096, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);

	/* Advice. */
	sge = (struct ibv_sge){ (uintptr_t)memory + 5, 2 * page, mr->lkey };
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		 EFAULT);
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), 0);
	CHECK(!mprotect(memory, 4 * page, PROT_READ | PROT_WRITE));
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	{
		unsigned char present[4];

		CHECK(!mincore(memory, 4 * page, present));
		CHECK(present[0] & present[1] & present[2] & 1);
		CHECK(!(present[3] & 1));
	}
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 2, &sge, 1), EINVAL);
	CHECK_EQ(ibv_advise_mr(pair->pd, 77, 0, &sge, 1), EOPNOTSUPP);
	sge.lkey ^= 1;
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	sge = (struct ibv_sge){ (uintptr_t)memory, 5 * page, mr->lkey };
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	sge = (struct ibv_sge){ (uintptr_t)pair->memory[1], 8, pair->mr[1]->lkey };
	CHECK_EQ(ibv_advise_mr(pair->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);

	/* Written, read and counted in through either region; what is not there is an error and no signal. */
	CHECK_EQ(write_to(pair, mr->rkey, (uintptr_t)memory + 3 * page), IBV_WC_SUCCESS);
	CHECK(!memcmp(memory + 3 * page, "abcdefgh", 8));
	CHECK_EQ(write_to(pair, all->rkey, (uintptr_t)pair->memory[1] + 16), IBV_WC_SUCCESS);
	CHECK(!memcmp(pair->memory[1] + 16, "abcdefgh", 8));
	CHECK_EQ(operate(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, all->rkey, (uintptr_t)memory + 8), IBV_WC_SUCCESS);
	CHECK_EQ(memory[8], 1);
	CHECK(!munmap(memory, 4 * page));
	CHECK_EQ(operate(pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)memory), IBV_WC_REM_OP_ERR);
	CHECK_EQ(ibv_dereg_mr(all), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_pair(pair);
}

/* What arrives in a null region is lost; what leaves it is zero. */
static void null_region(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_mr *null = ibv_alloc_null_mr(pair->pd);
	struct ibv_sge sges[2] = { { 0, 4, 0 }, { (uintptr_t)pair->memory[1], 4, pair->mr[1]->lkey } };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = sges, .num_sge = 2 }, *bad;
	struct ibv_send_wr send = {
		.wr_id = 2,
		.sg_list = sges,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_send;
	struct ibv_sge source = { (uintptr_t)pair->memory[0], 8, pair->mr[0]->lkey };

	CHECK(null != NULL);
	sges[0].lkey = null->lkey;
	memcpy(pair->memory[0], "head" "tail", 8);
	CHECK_EQ(ibv_post_recv(pair->qp[1], &wr, &bad), 0);
	send.sg_list = &source;
	CHECK_EQ(ibv_post_send(pair->qp[0], &send, &bad_send), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(completion(pair->cq[1]).byte_len, 8);
	CHECK(!memcmp(pair->memory[1], "tail", 4));
	wr.num_sge = 1;
	wr.sg_list = &sges[1];
	CHECK_EQ(ibv_post_recv(pair->qp[1], &wr, &bad), 0);
	send.sg_list = &sges[0];
	CHECK_EQ(ibv_post_send(pair->qp[0], &send, &bad_send), 0);
	CHECK_EQ(completion(pair->cq[0]).status, IBV_WC_SUCCESS);
	CHECK_EQ(completion(pair->cq[1]).status, IBV_WC_SUCCESS);
	CHECK(!memcmp(pair->memory[1], "\0\0\0\0", 4));
	CHECK_EQ(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(write_to(pair, null->rkey, 0), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(null), 0);
	close_pair(pair);
}

static void device_memory(void)
{
	struct pair *pair = connected_pair(0);
	struct ibv_device_attr_ex attr;
	struct ibv_alloc_dm_attr spec = { .length = 4096, .log_align_req = 6 };
	struct ibv_dm *dm, *rest;
	struct ibv_mr *mr;
	char back[8];

	CHECK_EQ(ibv_query_device_ex(pair->context, NULL, &attr), 0);
	CHECK(attr.max_dm_size >= 1 << 20);
	dm = ibv_alloc_dm(pair->context, &spec);
	CHECK(dm != NULL && dm->context == pair->context);
	spec.length = attr.max_dm_size + 1;
	CHECK_NULL(ibv_alloc_dm(pair->context, &spec), EINVAL);
	spec.length = attr.max_dm_size;
	CHECK_NULL(ibv_alloc_dm(pair->context, &spec), ENOMEM);
	spec.length -= 4096;
	rest = ibv_alloc_dm(pair->context, &spec);
	CHECK(rest != NULL);
	CHECK_EQ(ibv_free_dm(rest), 0);
	spec.length = 0;
	CHECK_NULL(ibv_alloc_dm(pair->context, &spec), EINVAL);

	CHECK_EQ(ibv_memcpy_to_dm(dm, 4089, "abcdefgh", 8), EFAULT);
	CHECK_EQ(ibv_memcpy_to_dm(dm, UINT64_MAX, "abcdefgh", 8), EFAULT);
	CHECK_EQ(ibv_memcpy_from_dm(back, dm, 4097, 0), EFAULT);
	CHECK_EQ(ibv_memcpy_to_dm(dm, 1001, "hgfedcba", 8), 0);
	CHECK_EQ(ibv_memcpy_from_dm(back, dm, 1001, 8), 0);
	CHECK(!memcmp(back, "hgfedcba", 8));

	CHECK_NULL(ibv_reg_dm_mr(pair->pd, dm, 0, 4096, ALL), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pair->pd, dm, 8, 4096, ALL | IBV_ACCESS_ZERO_BASED), EINVAL);
	mr = ibv_reg_dm_mr(pair->pd, dm, 1000, 96, ALL | IBV_ACCESS_ZERO_BASED);
	CHECK(mr != NULL);
	CHECK_EQ(ibv_free_dm(dm), EBUSY);
	CHECK_EQ(write_to(pair, mr->rkey, 88), IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(back, dm, 1088, 8), 0);
	CHECK(!memcmp(back, "abcdefgh", 8));
	CHECK_EQ(operate(pair, IBV_WR_RDMA_READ, mr->rkey, 1), IBV_WC_SUCCESS);
	CHECK(!memcmp(pair->memory[0], "hgfedcba", 8));
	CHECK_EQ(operate(pair, IBV_WR_ATOMIC_FETCH_AND_ADD, mr->rkey, 32), IBV_WC_SUCCESS);
	CHECK_EQ(ibv_memcpy_from_dm(back, dm, 1032, 1), 0);
	CHECK_EQ(back[0], 1);
	CHECK_EQ(write_to(pair, mr->rkey, 89), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_free_dm(dm), 0);
	close_pair(pair);
}

/* A file in memory does for a dmabuf; what it is cut to afterwards is an error and no signal. */
static void behind_a_descriptor(void)
{
	struct pair *pair = connected_pair(0);
	int fd = memfd_create("buffer", 0);
	struct ibv_mr *mr;
	char back[8];

	CHECK(fd >= 0 && !ftruncate(fd, 3 * 4096));
	/* How programs find out whether there is such a thing. */
	CHECK_NULL(ibv_reg_dmabuf_mr(pair->pd, 0, 4096, 0, -1, ALL), EBADF);
	CHECK_NULL(ibv_reg_dmabuf_mr(pair->pd, 0, 4096, 0, 9999, ALL), EBADF);
	CHECK_NULL(ibv_reg_dmabuf_mr(pair->pd, 8, 4096, 0, fd, ALL), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pair->pd, 0, 4096, 0, fd, ALL | IBV_ACCESS_ON_DEMAND), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pair->pd, UINT64_MAX - 4095, 4096, 0, fd, ALL), EINVAL);
	mr = ibv_reg_dmabuf_mr(pair->pd, 4096 + 512, 4096, 0x7000200, fd, ALL);
	CHECK(mr != NULL && mr->length == 4096);
	CHECK_EQ(write_to(pair, mr->rkey, 0x7000200), IBV_WC_SUCCESS);
	CHECK_EQ(write_to(pair, mr->rkey, 0x7000200 + 4088), IBV_WC_SUCCESS);
	CHECK_EQ(pread(fd, back, 8, 4096 + 512), 8);
	CHECK(!memcmp(back, "abcdefgh", 8));
	CHECK_EQ(pread(fd, back, 8, 4096 + 512 + 4088), 8);
	CHECK(!memcmp(back, "abcdefgh", 8));
	CHECK_EQ(pwrite(fd, "from disk", 8, 5000), 8);
	CHECK_EQ(operate(pair, IBV_WR_RDMA_READ, mr->rkey, 0x7000200 + 5000 - 4608), IBV_WC_SUCCESS);
	CHECK(!memcmp(pair->memory[0], "from dis", 8));
	CHECK(!ftruncate(fd, 0));
	close(fd);
	CHECK_EQ(write_to(pair, mr->rkey, 0x7000200), IBV_WC_REM_OP_ERR);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_pair(pair);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "changed_regions", changed_regions },
		{ "on_demand", on_demand },
		{ "null_region", null_region },
		{ "device_memory", device_memory },
		{ "behind_a_descriptor", behind_a_descriptor },
		{ NULL, NULL },
	};

	return run_case(argc, argv, cases);
}
