/* Objects: how many, how large, how they change, and what an empty place answers. */
#include "ends.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* D11 */
static void keys_do_not_run_out(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	uint32_t stale = 0;

	for (int i = 0; i < 70000; i++) {
		struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buffer, 4096, ALL_ACCESS);
		CHECK(mr, "registration %d: %s", i, strerror(errno));
		stale = mr->rkey;
		CHECK(ibv_dereg_mr(mr) == 0, "deregistration %d", i);
	}
	connect_ends(&a, &b);
	post(&a, &b, 1, IBV_WR_RDMA_WRITE, 0, 64);
	expect(&a, 1, IBV_WC_SUCCESS);
	struct ibv_sge sge = sge_at(&a, 0, 64);
	struct ibv_send_wr wr = wr_of(&b, 2, IBV_WR_RDMA_WRITE, &sge, 0);
	wr.wr.rdma.rkey = stale;
	post_wr(&a, &wr);
	expect(&a, 2, IBV_WC_REM_ACCESS_ERR);
	free_end(&a), free_end(&b);
}

/* D12 */
static void a_resized_cq_keeps_its_entries(void)
{
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);

	connect_ends(&a, &b);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		post_recv(&b, wr_id, 0, 64);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++) {
		post(&a, &b, wr_id, IBV_WR_SEND, 0, 8);
		expect(&a, wr_id, IBV_WC_SUCCESS);
	}
	/* The peer answers only what it has completed, so b's three CQEs are there. */
	int error = ibv_resize_cq(b.cq, 4000);
	CHECK(error == 0 && b.cq->cqe >= 4000, "up: %d, cqe %d", error, b.cq->cqe);
	error = ibv_resize_cq(b.cq, 4);
	CHECK(error == 0 && b.cq->cqe >= 4, "down: %d, cqe %d", error, b.cq->cqe);
	error = ibv_resize_cq(b.cq, 2);
	CHECK(error == EINVAL, "below what is in it: %d", error);
	for (uint64_t wr_id = 1; wr_id <= 3; wr_id++)
		expect(&b, wr_id, IBV_WC_SUCCESS);
	expect_nothing(&b);
	free_end(&a), free_end(&b);
}

/* D24 */
static void memory_is_registered_whatever_the_memlock_limit(void)
{
	struct rlimit limit = { 65536, 65536 };
	const size_t gib = 1u << 30, page = (size_t)sysconf(_SC_PAGESIZE);

	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "setrlimit: %s", strerror(errno));
	struct ibv_context *context = open_device();
	struct end a = make_end(context, ORDINARY), b = make_end(context, ORDINARY);
	connect_ends(&a, &b);

	void *large = mmap(NULL, gib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(large != MAP_FAILED, "mmap: %s", strerror(errno));
	struct ibv_mr *large_mr = ibv_reg_mr(b.pd, large, gib, ALL_ACCESS);
	CHECK(large_mr, "1 GiB: %s", strerror(errno));

	FILE *file = tmpfile();
	CHECK(file && ftruncate(fileno(file), (off_t)page) == 0, "a file: %s", strerror(errno));
	void *mapped = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	CHECK(mapped != MAP_FAILED, "mmap: %s", strerror(errno));
	struct ibv_mr *file_mr = ibv_reg_mr(b.pd, mapped, page, ALL_ACCESS);
	CHECK(file_mr, "a file mapping: %s", strerror(errno));

	uint8_t *constant = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(constant != MAP_FAILED, "mmap: %s", strerror(errno));
	fill(constant, page, 2);
	CHECK(mprotect(constant, page, PROT_READ) == 0, "mprotect: %s", strerror(errno));
	struct ibv_mr *constant_mr = ibv_reg_mr(b.pd, constant, page, IBV_ACCESS_REMOTE_READ);
	CHECK(constant_mr, "a read-only page: %s", strerror(errno));

	/* They are not only registered: the peer reaches them. */
	struct ibv_sge sge = sge_at(&a, 0, 512);
	struct ibv_send_wr wr = wr_of(&b, 1, IBV_WR_RDMA_READ, &sge, 0);
	wr.wr.rdma.remote_addr = (uintptr_t)constant;
	wr.wr.rdma.rkey = constant_mr->rkey;
	post_wr(&a, &wr);
	expect(&a, 1, IBV_WC_SUCCESS);
	expect_filled(a.buffer, 512, 2, "the read-only page");
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)large + gib - 512;
	wr.wr.rdma.rkey = large_mr->rkey;
	post_wr(&a, &wr);
	expect(&a, 1, IBV_WC_SUCCESS);
	expect_filled((uint8_t *)large + gib - 512, 512, 2, "the end of the large region");
	wr.wr.rdma.remote_addr = (uintptr_t)mapped;
	wr.wr.rdma.rkey = file_mr->rkey;
	post_wr(&a, &wr);
	expect(&a, 1, IBV_WC_SUCCESS);
	uint8_t from_file[512];
	CHECK(pread(fileno(file), from_file, 512, 0) == 512, "pread: %s", strerror(errno));
	expect_filled(from_file, 512, 2, "the file");

	CHECK(ibv_dereg_mr(constant_mr) == 0 && ibv_dereg_mr(file_mr) == 0 && ibv_dereg_mr(large_mr) == 0, "dereg");
	free_end(&a), free_end(&b);
}

static long resident_kib(void)
{
	char line[256];
	long kib = -1;
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	CHECK(file, "smaps_rollup: %s", strerror(errno));
	while (fgets(line, sizeof line, file))
		if (sscanf(line, "Rss: %ld", &kib) == 1)
			break;
	fclose(file);
	CHECK(kib > 0, "no Rss");
	return kib;
}

static void idle_qps_are_small(void)
{
	enum { QPS = 1000 };
	struct ibv_context *context = open_device();
	struct end ends[2] = { make_end(context, ORDINARY), make_end(context, ORDINARY) };
	struct settings settings = ORDINARY;

	/* What the first of everything costs is not what one more costs. */
	connect_ends(&ends[0], &ends[1]);
	post(&ends[0], &ends[1], 1, IBV_WR_RDMA_WRITE, 0, 4096);
	expect(&ends[0], 1, IBV_WC_SUCCESS);
	settings.max_send_wr = settings.max_recv_wr = 256;
	static struct end idle[QPS];
	long before = resident_kib();
	for (int i = 0; i < QPS; i++) {
		idle[i] = ends[0];
		idle[i].settings = settings;
		idle[i].qp = create_qp(&idle[i]);
	}
	for (int i = 0; i < QPS; i += 2)
		connect_ends(&idle[i], &idle[i + 1]);
	long grown = resident_kib() - before;
	printf("%d idle RC QPs: %ld KiB\n", QPS, grown);
	CHECK(grown < 16 * 1024, "%ld KiB", grown);
	for (int i = 0; i < QPS; i++)
		CHECK(ibv_destroy_qp(idle[i].qp) == 0, "ibv_destroy_qp");
}

static void an_unused_cq_is_small(void)
{
	struct ibv_context *context = open_device();
	struct ibv_cq *first = ibv_create_cq(context, 16, NULL, NULL, 0);

	CHECK(first, "ibv_create_cq: %s", strerror(errno));
	long before = resident_kib();
	struct ibv_cq *large = ibv_create_cq(context, 500000, NULL, NULL, 0);
	CHECK(large && large->cqe >= 500000, "ibv_create_cq: %s", strerror(errno));
	long grown = resident_kib() - before;
	printf("a CQ of %d entries: %ld KiB\n", large->cqe, grown);
	CHECK(grown < 1024, "%ld KiB", grown);
	CHECK(ibv_destroy_cq(large) == 0 && ibv_destroy_cq(first) == 0, "ibv_destroy_cq");
}

MAIN({ "keys_do_not_run_out", keys_do_not_run_out },
     { "a_resized_cq_keeps_its_entries", a_resized_cq_keeps_its_entries },
     { "memory_is_registered_whatever_the_memlock_limit", memory_is_registered_whatever_the_memlock_limit },
     { "idle_qps_are_small", idle_qps_are_small }, { "an_unused_cq_is_small", an_unused_cq_is_small })
